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


class Lease(Base):
    __tablename__ = 'leases'
    __table_args__ = (
        # Leases of a project; leases of all.
        sa.Index('leases_project_idx', 'project_id', 'deleted_at'),
        sa.Index('leases_deleted_idx', 'deleted_at'),
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


class Notification(Base):
    """What must still be told to the world. A row is deleted once it is sent."""

    __tablename__ = 'notifications'
    __table_args__ = (
        # What is to be sent, oldest first, and when to look again.
        sa.Index('notifications_next_idx', 'next_at', 'id'),
        # What this publisher has just claimed.
        sa.Index('notifications_claim_idx', 'claim'),
        _OPTIONS,
    )

    id: orm.Mapped[int] = orm.mapped_column(
        sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), primary_key=True
    )
    event_id: orm.Mapped[str] = orm.mapped_column(_Uuid)
    event_type: orm.Mapped[str] = orm.mapped_column(sa.String(128))
    payload: orm.Mapped[Any] = orm.mapped_column(Json)
    claim: orm.Mapped[str | None] = orm.mapped_column(_Uuid)
    next_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Time)
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(Time)


LEASES = cast(sa.Table, Lease.__table__)
RESERVATIONS = cast(sa.Table, Reservation.__table__)
EVENTS = cast(sa.Table, Event.__table__)
NOTIFICATIONS = cast(sa.Table, Notification.__table__)
