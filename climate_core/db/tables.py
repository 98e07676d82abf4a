# SPDX-License-Identifier: Apache-2.0
"""The tables, beside those of reservation packages.

``migrations`` must lead to all of them; ``tests/migrations`` compares the two.

Each index serves a query; the query is named beside it. Times are UTC without an offset, with
microseconds. Ids are UUIDs in their text form.
"""

import datetime
import json
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from climate_common.limits import NAME_LENGTH
from climate_core import packages

UTC = datetime.UTC


class Time(sa.types.TypeDecorator[datetime.datetime]):
    """A timezone-aware UTC time in Python, a naive one with microseconds in the database."""

    impl = sa.DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        if dialect.name in ('mysql', 'mariadb'):
            return dialect.type_descriptor(mysql.DATETIME(fsp=6))
        return dialect.type_descriptor(sa.DateTime())

    def process_bind_param(
        self, value: datetime.datetime | None, _dialect: sa.Dialect
    ) -> datetime.datetime | None:
        return value.astimezone(UTC).replace(tzinfo=None) if value is not None else None

    def process_result_value(
        self, value: datetime.datetime | None, _dialect: sa.Dialect
    ) -> datetime.datetime | None:
        return value.replace(tzinfo=UTC) if value is not None else None


class Json(sa.types.TypeDecorator[Any]):
    """JSON as text: compared, reflected and limited in the same way on every database."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        if dialect.name in ('mysql', 'mariadb'):
            return dialect.type_descriptor(mysql.MEDIUMTEXT())
        return dialect.type_descriptor(sa.Text())

    def process_bind_param(self, value: Any, _dialect: sa.Dialect) -> str | None:
        return None if value is None else json.dumps(value, sort_keys=True)

    def process_result_value(self, value: str | None, _dialect: sa.Dialect) -> Any:
        return None if value is None else json.loads(value)


METADATA = sa.MetaData()


def load_metadata() -> sa.MetaData:
    """Return the tables of this module and of all reservation packages."""
    packages.find_unit_tables()
    return METADATA


Uuid = sa.String(36)
#: A name with case, which MariaDB and MySQL ignore in their default collation.
Name = sa.String(NAME_LENGTH).with_variant(
    mysql.VARCHAR(NAME_LENGTH, collation='utf8mb4_bin'), 'mysql', 'mariadb'
)
Serial = sa.BigInteger().with_variant(sa.Integer(), 'sqlite')


def define_table(name: str, *parts: sa.schema.SchemaItem, **options: Any) -> sa.Table:
    """Create a table of the metadata."""
    options |= {'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4'}
    return sa.Table(name, METADATA, *parts, **options)


def required(name: str, type_: Any, *more: Any, **options: Any) -> sa.Column[Any]:
    """Create a column that is never NULL."""
    return sa.Column(name, type_, *more, nullable=False, **options)


def _lease_id(table: str) -> sa.Column[Any]:
    key = sa.ForeignKey('leases.id', name=f'{table}_lease_fkey', ondelete='CASCADE')
    return required('lease_id', Uuid, key)


LEASES = define_table(
    'leases',
    required('id', Uuid, primary_key=True),
    required('name', sa.String(NAME_LENGTH)),
    required('project_id', sa.String(NAME_LENGTH)),
    required('user_id', sa.String(NAME_LENGTH)),
    required('start_date', Time),
    required('end_date', Time),
    sa.Column('before_end_date', Time),
    required('status', sa.String(16)),
    sa.Column('status_reason', sa.Text),
    required('degraded', sa.Boolean),
    sa.Column('trust_id', sa.String(NAME_LENGTH)),
    required('generation', sa.Integer),
    required('created_at', Time),
    sa.Column('updated_at', Time),
    sa.Column('deleted_at', Time),
    required('start_policy', sa.String(16), server_default='auto'),
    required('before_start', Json),
    sa.Column('webhook', Json),
    sa.Column('request_digest', sa.String(64)),
    required('kind', sa.String(16), server_default='immediate'),
    sa.Column('retries_left', sa.Integer),
    sa.Column('duration', sa.Integer),
    required('priority', sa.SmallInteger, server_default='0'),
    required('preemptible', sa.Boolean, server_default='0'),
    # A page of the leases of a project, and of all; what may be purged.
    sa.Index('leases_listed_idx', 'project_id', 'deleted_at', 'created_at', 'id'),
    sa.Index('leases_all_idx', 'deleted_at', 'created_at', 'id'),
    # Whose allocations other leases may preempt.
    sa.Index('leases_preemptible_idx', 'preemptible', 'start_date'),
    # The usage of a project, for its limits.
    sa.Index('leases_live_idx', 'project_id', 'status'),
    # A page of those of a name, of a status, of a time.
    sa.Index('leases_name_idx', 'name'),
    sa.Index('leases_status_idx', 'status', 'deleted_at', 'created_at', 'id'),
    sa.Index('leases_time_idx', 'deleted_at', 'end_date', 'start_date'),
    sa.Index('leases_project_time_idx', 'project_id', 'deleted_at', 'end_date', 'start_date'),
    # Whether a lease needs a trust.
    sa.Index('leases_trust_idx', 'trust_id'),
)

#: ``hold`` is 1 while the reservation holds its resource and NULL afterwards. ``short_params`` is
#: ``params`` without what only the creation of its resource needs; NULL if that is nothing.
RESERVATIONS = define_table(
    'reservations',
    required('id', Uuid, primary_key=True),
    _lease_id('reservations'),
    required('resource_type', sa.String(66)),
    required('resource_id', sa.String(NAME_LENGTH)),
    sa.Column('hold', sa.SmallInteger),
    required('status', sa.String(16)),
    sa.Column('status_reason', sa.Text),
    required('params', Json),
    required('missing_resources', sa.Boolean),
    required('resources_changed', sa.Boolean),
    required('created_at', Time),
    sa.Column('updated_at', Time),
    required('amounts', Json),
    sa.Column('woken_at', Time),
    sa.Column('freed_at', Time),
    sa.Column('parent_id', sa.String(NAME_LENGTH)),
    sa.Column('progress', Json),
    sa.Column('unit_kind', sa.String(66)),
    required('given_up', sa.Boolean),
    sa.Column('short_params', Json),
    # A resource is reserved once. Also finds the lease of a resource.
    sa.UniqueConstraint('resource_type', 'resource_id', 'hold', name='reservations_hold_key'),
    # Reservations of a lease.
    sa.Index('reservations_lease_idx', 'lease_id'),
    # Pages of claimed resources, for the reconciliation.
    sa.Index('reservations_held_idx', 'resource_type', 'hold', 'id'),
    # What was reserved in a period, for the usage.
    sa.Index('reservations_freed_idx', 'freed_at', 'created_at'),
    # Leases that have, or had, a resource.
    sa.Index('reservations_resource_idx', 'resource_id'),
)

#: ``next_at``: due time, time of the next try, or end of the claim; NULL when finished.
#: ``resource_types``: those of the reservations, each between spaces, if their plugins are called.
EVENTS = define_table(
    'events',
    required('id', Uuid, primary_key=True),
    _lease_id('events'),
    required('event_type', sa.String(66)),
    required('time', Time),
    required('status', sa.String(16)),
    sa.Column('status_reason', sa.Text),
    required('generation', sa.Integer),
    required('attempts', sa.Integer),
    required('priority', sa.SmallInteger),
    sa.Column('resource_types', sa.String(1024)),
    sa.Column('next_at', Time),
    required('created_at', Time),
    sa.Column('updated_at', Time),
    sa.Column('reservation_id', Uuid),
    # Events of a lease.
    sa.Index('events_lease_idx', 'lease_id'),
    # Due events, expired claims, and the time of the next poll.
    sa.Index('events_next_idx', 'next_at', 'priority'),
)

#: A notification that is not sent yet. Its row is deleted once it is sent.
NOTIFICATIONS = define_table(
    'notifications',
    required('id', Serial, primary_key=True),
    required('event_id', Uuid),
    required('event_type', sa.String(128)),
    required('payload', Json),
    sa.Column('claim', Uuid),
    required('next_at', Time),
    required('created_at', Time),
    # Unsent notifications, oldest first, and the time of the next poll.
    sa.Index('notifications_next_idx', 'next_at', 'id'),
    # The notifications that this publisher has just claimed.
    sa.Index('notifications_claim_idx', 'claim'),
)

#: An entry in the history of a lease, kept until the lease is purged.
HISTORY = define_table(
    'lease_history',
    required('id', Serial, primary_key=True),
    _lease_id('lease_history'),
    required('time', Time),
    required('action', sa.String(128)),
    required('result', sa.String(16)),
    sa.Column('reason', sa.Text),
    sa.Column('user_id', sa.String(NAME_LENGTH)),
    sa.Column('request_id', sa.String(64)),
    required('changes', Json),
    # The history of a lease, in order.
    sa.Index('lease_history_lease_idx', 'lease_id', 'id'),
)

#: A notification that a webhook has not accepted; its row is deleted then. ``target`` is the host
#: of the URL: not all senders shall wait for the same one.
DELIVERIES = define_table(
    'webhook_deliveries',
    required('id', Serial, primary_key=True),
    _lease_id('webhook_deliveries'),
    required('project_id', sa.String(NAME_LENGTH)),
    required('event_id', Uuid),
    required('event_type', sa.String(128)),
    required('payload', Json),
    required('target', sa.String(NAME_LENGTH)),
    required('url', sa.Text),
    required('secret', sa.String(NAME_LENGTH)),
    required('attempts', sa.Integer),
    sa.Column('claim', Uuid),
    required('next_at', Time),
    required('created_at', Time),
    # Unsent calls, and the time of the next poll.
    sa.Index('webhook_deliveries_next_idx', 'next_at', 'id'),
    # The calls that this sender has just claimed.
    sa.Index('webhook_deliveries_claim_idx', 'claim'),
    sa.Index('webhook_deliveries_lease_idx', 'lease_id'),
)

#: A period whose usage was reported, by the manager that writes the row.
USAGE_PERIODS = define_table(
    'usage_periods',
    required('start', Time, primary_key=True),
    required('end', Time),
)

#: A trust to the service user that no lease has, and since when that is known.
STRAY_TRUSTS = define_table(
    'stray_trusts',
    required('id', sa.String(NAME_LENGTH), primary_key=True),
    required('since', Time),
)

#: A trust that leases of one owner share, see climate_core.db.trusts. ``digest`` stands for
#: what it delegates; ``retired_at`` is NULL while new leases may take it.
OWNER_TRUSTS = define_table(
    'owner_trusts',
    required('trust_id', sa.String(NAME_LENGTH), primary_key=True),
    required('digest', sa.String(64)),
    required('user_id', sa.String(NAME_LENGTH)),
    required('project_id', sa.String(NAME_LENGTH)),
    required('roles', Json),
    required('created_at', Time),
    sa.Column('retired_at', Time),
    # Not retired, and not deleted, before; None: at any time.
    sa.Column('next_at', Time),
    # How often Keystone has rejected its deletion.
    sa.Column('attempts', sa.Integer),
    # The newest trust that a new lease may share.
    sa.Index('owner_trusts_live_idx', 'digest', 'retired_at', 'created_at'),
)

#: One row for each project that has limits: a lease that adds to it changes it first. A real
#: change, and not only a lock: a Galera cluster does not carry locks between its nodes, but
#: refuses the second of two changes.
PROJECTS = define_table(
    'projects',
    required('id', sa.String(NAME_LENGTH), primary_key=True),
    required('generation', sa.Integer),
)

#: A unit of the calendar: a host, a floating IP, a network. Each change of its allocations
#: increments its ``generation`` and sets ``changed_at``.
UNITS = define_table(
    'units',
    required('id', Serial, primary_key=True),
    required('kind', sa.String(66)),
    required('pool', Name),
    required('available', sa.Boolean),
    required('capacity', Json),
    required('lanes', sa.Integer),
    required('properties', Json),
    # The projects that may reserve it; NULL: all projects.
    sa.Column('access', Json),
    # Whether it is allocated last, because it has to be powered on first: see
    # climate_hosts.power.states.
    required('asleep', sa.Boolean, server_default='0'),
    required('generation', sa.Integer),
    required('changed_at', Time),
    # The changes since an index of the calendar was read, and whether it lacks any.
    sa.Index('units_changed_idx', 'changed_at', 'generation'),
    # The id of a deleted unit is not reused, as in the other databases.
    sqlite_autoincrement=True,
)


def unit_id_column(table: str, **options: Any) -> sa.Column[Any]:
    """Create the column ``unit_id`` of a table, whose rows are deleted with their units."""
    key = sa.ForeignKey('units.id', name=f'{table}_unit_fkey', ondelete='CASCADE')
    return required('unit_id', Serial, key, **options)


#: Pieces of a unit that are allocated to a reservation for a time. ``piece`` is NULL where that is
#: the whole unit. A unit with the generation that a promise was made at has no second one; this
#: is the primary key, by which the allocations of a unit are side by side when all are read.
ALLOCATIONS = define_table(
    'allocations',
    unit_id_column('allocations', primary_key=True),
    required('unit_generation', sa.Integer, primary_key=True),
    required(
        'reservation_id',
        Uuid,
        sa.ForeignKey('reservations.id', name='allocations_reservation_fkey', ondelete='CASCADE'),
    ),
    required('start', Time),
    required('end', Time),
    required('pieces', sa.Integer),
    sa.Column('piece', Json),
    required('lane', sa.Integer),
    # When it was released while the lease of the reservation was active; NULL: not.
    sa.Column('released', sa.Boolean),
    # Allocations of a reservation.
    sa.Index('allocations_reservation_idx', 'reservation_id'),
    # The allocations of a period, for the calendar: those that have ended are before it.
    sa.Index('allocations_time_idx', 'end', 'start'),
)

#: A feed of the leases of a project for a calendar: read with a token of its own, whose secret is
#: kept as a digest, while the trust of its user is good.
FEEDS = define_table(
    'feeds',
    required('id', Uuid, primary_key=True),
    required('name', sa.String(NAME_LENGTH)),
    required('project_id', sa.String(NAME_LENGTH)),
    required('user_id', sa.String(NAME_LENGTH)),
    required('secret_digest', sa.String(64)),
    required('trust_id', sa.String(NAME_LENGTH)),
    required('created_at', Time),
    # The feeds of a user in a project, in order.
    sa.Index('feeds_user_idx', 'user_id', 'project_id', 'created_at'),
)
