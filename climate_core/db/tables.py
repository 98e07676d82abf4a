# SPDX-License-Identifier: Apache-2.0
"""The tables. ``migrations`` must lead to the same; ``tests/migrations`` compares the two.

Each index serves a query; the query is named beside it. Times are UTC without an offset, with
microseconds. Ids are UUIDs in their text form.
"""

import datetime
import json
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects import mysql

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


class Base(orm.DeclarativeBase):
    __table_args__: Any = {'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4'}


_OPTIONS = Base.__table_args__
_Uuid = sa.String(36)
_Serial = sa.BigInteger().with_variant(sa.Integer(), 'sqlite')


class Lease(Base):
    __tablename__ = 'leases'
    __table_args__ = (
        # A page of the leases of a project, and of all; what may be purged.
        sa.Index('leases_listed_idx', 'project_id', 'deleted_at', 'created_at', 'id'),
        sa.Index('leases_all_idx', 'deleted_at', 'created_at', 'id'),
        # What a project holds, for its limits.
        sa.Index('leases_live_idx', 'project_id', 'status'),
        # A page of those of a name, of a status, of a time.
        sa.Index('leases_name_idx', 'name'),
        sa.Index('leases_status_idx', 'status', 'deleted_at', 'created_at', 'id'),
        sa.Index('leases_time_idx', 'deleted_at', 'end_date', 'start_date'),
        sa.Index('leases_project_time_idx', 'project_id', 'deleted_at', 'end_date', 'start_date'),
        _OPTIONS,
    )

    id: orm.Mapped[str] = orm.mapped_column(_Uuid, primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(255))
    project_id: orm.Mapped[str] = orm.mapped_column(sa.String(255))
    user_id: orm.Mapped[str] = orm.mapped_column(sa.String(255))
    start_date: orm.Mapped[datetime.datetime] = orm.mapped_column(Time)
    end_date: orm.Mapped[datetime.datetime] = orm.mapped_column(Time)
    before_end_date: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Time)
    status: orm.Mapped[str] = orm.mapped_column(sa.String(16))
    status_reason: orm.Mapped[str | None] = orm.mapped_column(sa.Text)
    degraded: orm.Mapped[bool] = orm.mapped_column(sa.Boolean)
    trust_id: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    generation: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Time)
    updated_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Time)
    deleted_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Time)
    start_policy: orm.Mapped[str] = orm.mapped_column(sa.String(16), server_default='auto')
    before_start: orm.Mapped[Any] = orm.mapped_column(Json, nullable=True)
    webhook: orm.Mapped[Any] = orm.mapped_column(Json, nullable=True)
    request_digest: orm.Mapped[str | None] = orm.mapped_column(sa.String(64))


class Reservation(Base):
    """``hold`` is 1 while the reservation holds its resource and NULL afterwards."""

    __tablename__ = 'reservations'
    __table_args__ = (
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
        _OPTIONS,
    )

    id: orm.Mapped[str] = orm.mapped_column(_Uuid, primary_key=True)
    lease_id: orm.Mapped[str] = orm.mapped_column(
        _Uuid, sa.ForeignKey('leases.id', name='reservations_lease_fkey', ondelete='CASCADE')
    )
    resource_type: orm.Mapped[str] = orm.mapped_column(sa.String(66))
    resource_id: orm.Mapped[str] = orm.mapped_column(sa.String(255))
    hold: orm.Mapped[int | None] = orm.mapped_column(sa.SmallInteger)
    status: orm.Mapped[str] = orm.mapped_column(sa.String(16))
    status_reason: orm.Mapped[str | None] = orm.mapped_column(sa.Text)
    params: orm.Mapped[Any] = orm.mapped_column(Json)
    missing_resources: orm.Mapped[bool] = orm.mapped_column(sa.Boolean)
    resources_changed: orm.Mapped[bool] = orm.mapped_column(sa.Boolean)
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Time)
    updated_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Time)
    amounts: orm.Mapped[Any] = orm.mapped_column(Json, nullable=True)
    woken_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Time)
    freed_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Time)
    parent_id: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    progress: orm.Mapped[Any] = orm.mapped_column(Json, nullable=True)


class Event(Base):
    """``next_at``: due time, time of the next try, or end of the claim; NULL when finished."""

    __tablename__ = 'events'
    __table_args__ = (
        # Events of a lease.
        sa.Index('events_lease_idx', 'lease_id'),
        # What is due, what was abandoned, and when to wake up next.
        sa.Index('events_next_idx', 'next_at', 'priority'),
        _OPTIONS,
    )

    id: orm.Mapped[str] = orm.mapped_column(_Uuid, primary_key=True)
    lease_id: orm.Mapped[str] = orm.mapped_column(
        _Uuid, sa.ForeignKey('leases.id', name='events_lease_fkey', ondelete='CASCADE')
    )
    event_type: orm.Mapped[str] = orm.mapped_column(sa.String(66))
    time: orm.Mapped[datetime.datetime] = orm.mapped_column(Time)
    status: orm.Mapped[str] = orm.mapped_column(sa.String(16))
    status_reason: orm.Mapped[str | None] = orm.mapped_column(sa.Text)
    generation: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    attempts: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    priority: orm.Mapped[int] = orm.mapped_column(sa.SmallInteger)
    next_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Time)
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Time)
    updated_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(Time)
    reservation_id: orm.Mapped[str | None] = orm.mapped_column(_Uuid)


class Notification(Base):
    """A notification that is not sent yet. Its row is deleted once it is sent."""

    __tablename__ = 'notifications'
    __table_args__ = (
        # What is to be sent, oldest first, and when to look again.
        sa.Index('notifications_next_idx', 'next_at', 'id'),
        # What this publisher has just claimed.
        sa.Index('notifications_claim_idx', 'claim'),
        _OPTIONS,
    )

    id: orm.Mapped[int] = orm.mapped_column(_Serial, primary_key=True)
    event_id: orm.Mapped[str] = orm.mapped_column(_Uuid)
    event_type: orm.Mapped[str] = orm.mapped_column(sa.String(128))
    payload: orm.Mapped[Any] = orm.mapped_column(Json)
    claim: orm.Mapped[str | None] = orm.mapped_column(_Uuid)
    next_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Time)
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Time)


class History(Base):
    """An entry in the history of a lease, kept until the lease is purged."""

    __tablename__ = 'lease_history'
    __table_args__ = (
        # The history of a lease, in order.
        sa.Index('lease_history_lease_idx', 'lease_id', 'id'),
        _OPTIONS,
    )

    id: orm.Mapped[int] = orm.mapped_column(_Serial, primary_key=True)
    lease_id: orm.Mapped[str] = orm.mapped_column(
        _Uuid, sa.ForeignKey('leases.id', name='lease_history_lease_fkey', ondelete='CASCADE')
    )
    time: orm.Mapped[datetime.datetime] = orm.mapped_column(Time)
    action: orm.Mapped[str] = orm.mapped_column(sa.String(128))
    result: orm.Mapped[str] = orm.mapped_column(sa.String(16))
    reason: orm.Mapped[str | None] = orm.mapped_column(sa.Text)
    user_id: orm.Mapped[str | None] = orm.mapped_column(sa.String(255))
    request_id: orm.Mapped[str | None] = orm.mapped_column(sa.String(64))
    changes: orm.Mapped[Any] = orm.mapped_column(Json)


class Delivery(Base):
    """A notification that a webhook must still be told. A row is deleted once it is told.

    ``target`` is the host of the URL: not all senders shall wait for the same one.
    """

    __tablename__ = 'webhook_deliveries'
    __table_args__ = (
        # What is to be sent, and when to look again.
        sa.Index('webhook_deliveries_next_idx', 'next_at', 'id'),
        # What this sender has just claimed.
        sa.Index('webhook_deliveries_claim_idx', 'claim'),
        sa.Index('webhook_deliveries_lease_idx', 'lease_id'),
        _OPTIONS,
    )

    id: orm.Mapped[int] = orm.mapped_column(_Serial, primary_key=True)
    lease_id: orm.Mapped[str] = orm.mapped_column(
        _Uuid, sa.ForeignKey('leases.id', name='webhook_deliveries_lease_fkey', ondelete='CASCADE')
    )
    project_id: orm.Mapped[str] = orm.mapped_column(sa.String(255))
    event_id: orm.Mapped[str] = orm.mapped_column(_Uuid)
    event_type: orm.Mapped[str] = orm.mapped_column(sa.String(128))
    payload: orm.Mapped[Any] = orm.mapped_column(Json)
    target: orm.Mapped[str] = orm.mapped_column(sa.String(255))
    url: orm.Mapped[str] = orm.mapped_column(sa.Text)
    secret: orm.Mapped[str] = orm.mapped_column(sa.String(255))
    attempts: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    claim: orm.Mapped[str | None] = orm.mapped_column(_Uuid)
    next_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Time)
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Time)


class UsagePeriod(Base):
    """A period whose usage was told, by the manager that writes the row."""

    __tablename__ = 'usage_periods'
    __table_args__ = (_OPTIONS,)

    start: orm.Mapped[datetime.datetime] = orm.mapped_column(Time, primary_key=True)
    end: orm.Mapped[datetime.datetime] = orm.mapped_column(Time)


class StrayTrust(Base):
    """A trust to the service user that no lease has, and since when that is known."""

    __tablename__ = 'stray_trusts'
    __table_args__ = (_OPTIONS,)

    id: orm.Mapped[str] = orm.mapped_column(sa.String(255), primary_key=True)
    since: orm.Mapped[datetime.datetime] = orm.mapped_column(Time)


class Project(Base):
    """One row for each project that has limits: who adds to what it holds changes it first.

    A real change, and not only a lock: a Galera cluster does not carry locks between its nodes,
    but refuses the second of two changes.
    """

    __tablename__ = 'projects'
    __table_args__ = (_OPTIONS,)

    id: orm.Mapped[str] = orm.mapped_column(sa.String(255), primary_key=True)
    generation: orm.Mapped[int] = orm.mapped_column(sa.Integer)


LEASES = cast(sa.Table, Lease.__table__)
RESERVATIONS = cast(sa.Table, Reservation.__table__)
EVENTS = cast(sa.Table, Event.__table__)
NOTIFICATIONS = cast(sa.Table, Notification.__table__)
HISTORY = cast(sa.Table, History.__table__)
DELIVERIES = cast(sa.Table, Delivery.__table__)
USAGE_PERIODS = cast(sa.Table, UsagePeriod.__table__)
STRAY_TRUSTS = cast(sa.Table, StrayTrust.__table__)
PROJECTS = cast(sa.Table, Project.__table__)
