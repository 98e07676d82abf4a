# SPDX-License-Identifier: Apache-2.0
"""The tables. ``migrations`` must lead to the same; ``tests/migrations`` compares the two.

Each index serves a query; the query is named beside it. Times are UTC without an offset, with
microseconds. Ids are UUIDs in their text form.
"""

import datetime
import json
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from climate_common.limits import NAME_LENGTH

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

_Uuid = sa.String(36)
#: A name that is told apart by case, which MariaDB and MySQL only do when they are asked to.
_Name = sa.String(NAME_LENGTH).with_variant(
    mysql.VARCHAR(NAME_LENGTH, collation='utf8mb4_bin'), 'mysql', 'mariadb'
)
_Serial = sa.BigInteger().with_variant(sa.Integer(), 'sqlite')


def _table(name: str, *parts: sa.schema.SchemaItem, **options: Any) -> sa.Table:
    options |= {'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4'}
    return sa.Table(name, METADATA, *parts, **options)


def _required(name: str, type_: Any, *more: Any, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, type_, *more, nullable=False, **options)


def _lease_id(table: str) -> sa.Column[Any]:
    key = sa.ForeignKey('leases.id', name=f'{table}_lease_fkey', ondelete='CASCADE')
    return _required('lease_id', _Uuid, key)


LEASES = _table(
    'leases',
    _required('id', _Uuid, primary_key=True),
    _required('name', sa.String(NAME_LENGTH)),
    _required('project_id', sa.String(NAME_LENGTH)),
    _required('user_id', sa.String(NAME_LENGTH)),
    _required('start_date', Time),
    _required('end_date', Time),
    sa.Column('before_end_date', Time),
    _required('status', sa.String(16)),
    sa.Column('status_reason', sa.Text),
    _required('degraded', sa.Boolean),
    sa.Column('trust_id', sa.String(NAME_LENGTH)),
    _required('generation', sa.Integer),
    _required('created_at', Time),
    sa.Column('updated_at', Time),
    sa.Column('deleted_at', Time),
    _required('start_policy', sa.String(16), server_default='auto'),
    _required('before_start', Json),
    sa.Column('webhook', Json),
    sa.Column('request_digest', sa.String(64)),
    _required('kind', sa.String(16), server_default='immediate'),
    sa.Column('retries_left', sa.Integer),
    sa.Column('duration', sa.Integer),
    _required('priority', sa.SmallInteger, server_default='0'),
    _required('preemptible', sa.Boolean, server_default='0'),
    # A page of the leases of a project, and of all; what may be purged.
    sa.Index('leases_listed_idx', 'project_id', 'deleted_at', 'created_at', 'id'),
    sa.Index('leases_all_idx', 'deleted_at', 'created_at', 'id'),
    # Those whose promises others may take.
    sa.Index('leases_preemptible_idx', 'preemptible', 'start_date'),
    # What a project holds, for its limits.
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
RESERVATIONS = _table(
    'reservations',
    _required('id', _Uuid, primary_key=True),
    _lease_id('reservations'),
    _required('resource_type', sa.String(66)),
    _required('resource_id', sa.String(NAME_LENGTH)),
    sa.Column('hold', sa.SmallInteger),
    _required('status', sa.String(16)),
    sa.Column('status_reason', sa.Text),
    _required('params', Json),
    _required('missing_resources', sa.Boolean),
    _required('resources_changed', sa.Boolean),
    _required('created_at', Time),
    sa.Column('updated_at', Time),
    _required('amounts', Json),
    sa.Column('woken_at', Time),
    sa.Column('freed_at', Time),
    sa.Column('parent_id', sa.String(NAME_LENGTH)),
    sa.Column('progress', Json),
    sa.Column('unit_kind', sa.String(66)),
    _required('given_up', sa.Boolean),
    sa.Column('short_params', Json),
    # A resource is reserved once. Also: who holds this resource?
    sa.UniqueConstraint('resource_type', 'resource_id', 'hold', name='reservations_hold_key'),
    # Reservations of a lease.
    sa.Index('reservations_lease_idx', 'lease_id'),
    # Page through what is held, for the reconcile pass.
    sa.Index('reservations_held_idx', 'resource_type', 'hold', 'id'),
    # What was held in a period, for the usage.
    sa.Index('reservations_freed_idx', 'freed_at', 'created_at'),
    # Leases that have, or had, a resource.
    sa.Index('reservations_resource_idx', 'resource_id'),
)

#: ``next_at``: due time, time of the next try, or end of the claim; NULL when finished.
EVENTS = _table(
    'events',
    _required('id', _Uuid, primary_key=True),
    _lease_id('events'),
    _required('event_type', sa.String(66)),
    _required('time', Time),
    _required('status', sa.String(16)),
    sa.Column('status_reason', sa.Text),
    _required('generation', sa.Integer),
    _required('attempts', sa.Integer),
    _required('priority', sa.SmallInteger),
    sa.Column('next_at', Time),
    _required('created_at', Time),
    sa.Column('updated_at', Time),
    sa.Column('reservation_id', _Uuid),
    # Events of a lease.
    sa.Index('events_lease_idx', 'lease_id'),
    # What is due, what was abandoned, and when to wake up next.
    sa.Index('events_next_idx', 'next_at', 'priority'),
)

#: A notification that is not sent yet. Its row is deleted once it is sent.
NOTIFICATIONS = _table(
    'notifications',
    _required('id', _Serial, primary_key=True),
    _required('event_id', _Uuid),
    _required('event_type', sa.String(128)),
    _required('payload', Json),
    sa.Column('claim', _Uuid),
    _required('next_at', Time),
    _required('created_at', Time),
    # What is to be sent, oldest first, and when to look again.
    sa.Index('notifications_next_idx', 'next_at', 'id'),
    # What this publisher has just claimed.
    sa.Index('notifications_claim_idx', 'claim'),
)

#: An entry in the history of a lease, kept until the lease is purged.
HISTORY = _table(
    'lease_history',
    _required('id', _Serial, primary_key=True),
    _lease_id('lease_history'),
    _required('time', Time),
    _required('action', sa.String(128)),
    _required('result', sa.String(16)),
    sa.Column('reason', sa.Text),
    sa.Column('user_id', sa.String(NAME_LENGTH)),
    sa.Column('request_id', sa.String(64)),
    _required('changes', Json),
    # The history of a lease, in order.
    sa.Index('lease_history_lease_idx', 'lease_id', 'id'),
)

#: A notification that a webhook must still be told. A row is deleted once it is told. ``target``
#: is the host of the URL: not all senders shall wait for the same one.
DELIVERIES = _table(
    'webhook_deliveries',
    _required('id', _Serial, primary_key=True),
    _lease_id('webhook_deliveries'),
    _required('project_id', sa.String(NAME_LENGTH)),
    _required('event_id', _Uuid),
    _required('event_type', sa.String(128)),
    _required('payload', Json),
    _required('target', sa.String(NAME_LENGTH)),
    _required('url', sa.Text),
    _required('secret', sa.String(NAME_LENGTH)),
    _required('attempts', sa.Integer),
    sa.Column('claim', _Uuid),
    _required('next_at', Time),
    _required('created_at', Time),
    # What is to be sent, and when to look again.
    sa.Index('webhook_deliveries_next_idx', 'next_at', 'id'),
    # What this sender has just claimed.
    sa.Index('webhook_deliveries_claim_idx', 'claim'),
    sa.Index('webhook_deliveries_lease_idx', 'lease_id'),
)

#: A period whose usage was told, by the manager that writes the row.
USAGE_PERIODS = _table(
    'usage_periods',
    _required('start', Time, primary_key=True),
    _required('end', Time),
)

#: A trust to the service user that no lease has, and since when that is known.
STRAY_TRUSTS = _table(
    'stray_trusts',
    _required('id', sa.String(NAME_LENGTH), primary_key=True),
    _required('since', Time),
)

#: A trust that leases of one owner share, see climate_core.db.trusts. ``digest`` stands for
#: what it delegates; ``retired_at`` is NULL while new leases may take it.
OWNER_TRUSTS = _table(
    'owner_trusts',
    _required('trust_id', sa.String(NAME_LENGTH), primary_key=True),
    _required('digest', sa.String(64)),
    _required('user_id', sa.String(NAME_LENGTH)),
    _required('project_id', sa.String(NAME_LENGTH)),
    _required('roles', Json),
    _required('created_at', Time),
    sa.Column('retired_at', Time),
    # Not retired, and not deleted, before; None: at any time.
    sa.Column('next_at', Time),
    # How often Keystone has refused to delete it.
    sa.Column('attempts', sa.Integer),
    # The newest that a new lease may take.
    sa.Index('owner_trusts_live_idx', 'digest', 'retired_at', 'created_at'),
)

#: One row for each project that has limits: a lease that adds to it changes it first. A real
#: change, and not only a lock: a Galera cluster does not carry locks between its nodes, but
#: refuses the second of two changes.
PROJECTS = _table(
    'projects',
    _required('id', sa.String(NAME_LENGTH), primary_key=True),
    _required('generation', sa.Integer),
)

#: What the calendar promises pieces of: a host, a floating IP, a network. Each change of what is
#: promised of a unit counts its ``generation`` up and sets ``changed_at``.
UNITS = _table(
    'units',
    _required('id', _Serial, primary_key=True),
    _required('kind', sa.String(66)),
    _required('pool', _Name),
    _required('available', sa.Boolean),
    _required('capacity', Json),
    _required('lanes', sa.Integer),
    _required('properties', Json),
    # Who may have promises of it; NULL: everybody.
    sa.Column('access', Json),
    # Whether it is taken last, because it has to be woken first: see climate_hosts.domain.power.
    _required('asleep', sa.Boolean, server_default='0'),
    _required('generation', sa.Integer),
    _required('changed_at', Time),
    # What changed since an index of the calendar was read, and whether it misses something.
    sa.Index('units_changed_idx', 'changed_at', 'generation'),
    # The id of one that is gone is not given again, as the other databases have it.
    sqlite_autoincrement=True,
)


def _unit_id(table: str, **options: Any) -> sa.Column[Any]:
    key = sa.ForeignKey('units.id', name=f'{table}_unit_fkey', ondelete='CASCADE')
    return _required('unit_id', _Serial, key, **options)


#: Pieces of a unit that are promised to a reservation for a time. ``piece`` is NULL where that is
#: the whole unit. A unit with the generation that a promise was made at has no second one; this
#: is the primary key, by which the promises of a unit are side by side when all are read.
ALLOCATIONS = _table(
    'allocations',
    _unit_id('allocations', primary_key=True),
    _required('unit_generation', sa.Integer, primary_key=True),
    _required(
        'reservation_id',
        _Uuid,
        sa.ForeignKey('reservations.id', name='allocations_reservation_fkey', ondelete='CASCADE'),
    ),
    _required('start', Time),
    _required('end', Time),
    _required('pieces', sa.Integer),
    sa.Column('piece', Json),
    _required('lane', sa.Integer),
    # Given up while the lease of the reservation ran; NULL: not.
    sa.Column('released', sa.Boolean),
    # Allocations of a reservation.
    sa.Index('allocations_reservation_idx', 'reservation_id'),
    # What is promised in a time, for the calendar: all that is over is before it.
    sa.Index('allocations_time_idx', 'end', 'start'),
)

#: A host of a pool: its unit, as Nova and Placement know it. ``details`` is what they say,
#: ``extra`` what the operator adds.
HOSTS = _table(
    'hosts',
    _unit_id('hosts', primary_key=True),
    _required('hypervisor_hostname', sa.String(NAME_LENGTH)),
    _required('service_name', sa.String(NAME_LENGTH)),
    _required('provider_id', _Uuid),
    _required('lane_ids', Json),
    _required('details', Json),
    _required('extra', Json),
    # See climate_hosts.domain.hosts.State.
    _required('state', sa.String(16), server_default='enrolled'),
    sa.Column('disabled_reason', sa.Text),
    # The lease for which the servers of a shared host leave it.
    sa.Column('emptied_for', _Uuid),
    # Whether ordinary servers may run there until a lease needs it; NULL: never.
    sa.Column('open_to_unreserved', sa.Boolean),
    # See climate_hosts.domain.power: the state, since when, when it was last put to sleep, whether
    # an operator keeps it on, and how many seconds it took to wake.
    sa.Column('power', sa.String(16)),
    sa.Column('power_since', Time),
    sa.Column('slept_at', Time),
    _required('kept_on', sa.Boolean, server_default='0'),
    sa.Column('wake_seconds', sa.Integer),
    _required('created_at', Time),
    sa.Column('updated_at', Time),
    sa.UniqueConstraint('hypervisor_hostname', name='hosts_hypervisor_hostname_key'),
    # Whether ordinary servers are to be kept off a host: each time that its aggregate is written.
    sa.Index('hosts_provider_idx', 'provider_id'),
)

#: The time for which a host slept; ``end`` is NULL while it does. It is kept when the host is
#: deleted: what was saved was saved.
HOST_SLEEPS = _table(
    'host_sleeps',
    _required('id', _Serial, primary_key=True),
    _required('unit_id', _Serial),
    _required('hypervisor_hostname', sa.String(NAME_LENGTH)),
    _required('start', Time),
    sa.Column('end', Time),
    # The sleep that ends.
    sa.Index('host_sleeps_unit_idx', 'unit_id', 'start'),
    # How long hosts slept in a period.
    sa.Index('host_sleeps_end_idx', 'end', 'start'),
)

#: A pool of hosts, and who may use it; NULL: everybody. Its units have the same. ``generation``
#: counts the changes.
HOST_POOLS = _table(
    'host_pools',
    _required('name', _Name, primary_key=True),
    sa.Column('access', Json),
    _required('generation', sa.Integer, server_default='0'),
)

#: A property of hosts that users may not see, or may.
HOST_PROPERTIES = _table(
    'host_properties',
    _required('name', _Name, primary_key=True),
    _required('private', sa.Boolean),
)

#: A floating IP that is set apart for leases: its unit, which is promised as a whole.
FLOATING_IPS = _table(
    'floatingips',
    _unit_id('floatingips', primary_key=True),
    _required('network_id', _Uuid),
    _required('subnet_id', _Uuid),
    _required('address', sa.String(15)),
    _required('created_at', Time),
    # Nobody is promised an address by two units.
    sa.UniqueConstraint('network_id', 'address', name='floatingips_address_key'),
)

#: A network segment that is set apart for leases: its unit, which is promised as a whole.
#: ``physical_network`` is empty where there is none; ``extra`` is what the operator adds.
NETWORK_SEGMENTS = _table(
    'network_segments',
    _unit_id('network_segments', primary_key=True),
    _required('network_type', sa.String(16)),
    _required('physical_network', _Name),
    _required('segment_id', sa.BigInteger),
    _required('extra', Json),
    _required('created_at', Time),
    sa.Column('updated_at', Time),
    # Counts the changes by operators; that of the unit counts promises, too.
    _required('generation', sa.Integer, server_default='0'),
    # Nobody is promised a segment by two units.
    sa.UniqueConstraint(
        'network_type', 'physical_network', 'segment_id', name='network_segments_segment_key'
    ),
)

#: A property of network segments that users may not see, or may.
NETWORK_SEGMENT_PROPERTIES = _table(
    'network_segment_properties',
    _required('name', _Name, primary_key=True),
    _required('private', sa.Boolean),
)

#: A feed of the leases of a project for a calendar: read with a token of its own, whose secret is
#: kept as a digest, while the trust of its user is good.
FEEDS = _table(
    'feeds',
    _required('id', _Uuid, primary_key=True),
    _required('name', sa.String(NAME_LENGTH)),
    _required('project_id', sa.String(NAME_LENGTH)),
    _required('user_id', sa.String(NAME_LENGTH)),
    _required('secret_digest', sa.String(64)),
    _required('trust_id', sa.String(NAME_LENGTH)),
    _required('created_at', Time),
    # The feeds of a user in a project, in order.
    sa.Index('feeds_user_idx', 'user_id', 'project_id', 'created_at'),
)
