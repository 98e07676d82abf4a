# SPDX-License-Identifier: Apache-2.0
"""How leases are shown: for people in their own time zone, for programs as they are.

The table is for people. All other formats (-f json, yaml, csv, value, shell) get times as
ISO 8601 in UTC, reservations and events as lists of mappings.
"""

import dataclasses
import datetime
from typing import Any

from cliff import columns

from climateclient import models, times


class Time(columns.FormattableColumn[Any]):
    """A time; None is shown as nothing."""

    def human_readable(self) -> str:
        return times.show_time(self._value)

    def machine_readable(self) -> str | None:
        return times.iso_time(self._value)

    def __lt__(self, other: object) -> bool:
        return isinstance(other, Time) and _order(self._value) < _order(other._value)


class Reservations(columns.FormattableColumn[Any]):
    """The reservations of a lease, one a line."""

    def human_readable(self) -> str:
        return '\n'.join(_reservation_line(each) for each in self._value)

    def machine_readable(self) -> list[dict[str, Any]]:
        return [_plain(each) for each in self._value]


class Events(columns.FormattableColumn[Any]):
    """The events of a lease, one a line, in the order of their times."""

    def human_readable(self) -> str:
        return '\n'.join(_event_line(each) for each in self._value)

    def machine_readable(self) -> list[dict[str, Any]]:
        return [_plain(each) for each in self._value]


def show(lease: models.Lease) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """The fields and the values of one lease, as cliff's ShowOne takes them."""
    fields = {
        'id': lease.id,
        'name': lease.name,
        'status': lease.status,
        'status_reason': lease.status_reason,
        'degraded': lease.degraded,
        'start_date': Time(lease.start_date),
        'end_date': Time(lease.end_date),
        'before_end_date': Time(lease.before_end_date),
        'reservations': Reservations(lease.reservations),
        'events': Events(lease.events),
        'project_id': lease.project_id,
        'user_id': lease.user_id,
        'generation': lease.generation,
        'created_at': Time(lease.created_at),
        'updated_at': Time(lease.updated_at),
    }
    return tuple(fields), tuple(fields.values())


SHORT = ('ID', 'Name', 'Status', 'Start', 'End')
LONG = (*SHORT, 'Reservations', 'Project', 'User', 'Reason')


def row(lease: models.Lease, long: bool) -> tuple[Any, ...]:
    """One lease in the order of the columns :data:`SHORT` or :data:`LONG`."""
    short = (lease.id, lease.name, lease.status, Time(lease.start_date), Time(lease.end_date))
    if not long:
        return short
    rest = (Reservations(lease.reservations), lease.project_id, lease.user_id)
    return (*short, *rest, lease.status_reason)


def _reservation_line(reservation: models.Reservation) -> str:
    params = [f'{k}={v}' for k, v in reservation.params.items() if v not in (None, '')]
    flags = [
        name for name in ('missing_resources', 'resources_changed') if getattr(reservation, name)
    ]
    line = f'{reservation.resource_type} {reservation.resource_id or ""} {reservation.status}'
    return _joined(line, ' '.join(params), ' '.join(flags), reservation.status_reason)


def _event_line(event: models.Event) -> str:
    line = f'{times.show_time(event.time)} {event.event_type} {event.status}'
    return _joined(line, event.status_reason)


def _joined(line: str, *details: str | None) -> str:
    return ', '.join([' '.join(line.split()), *(detail for detail in details if detail)])


def _plain(value: models.Reservation | models.Event) -> dict[str, Any]:
    fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    fields |= fields.pop('params', {})
    return {
        key: times.iso_time(each) if isinstance(each, datetime.datetime) else each
        for key, each in fields.items()
    }


def _order(moment: datetime.datetime | None) -> datetime.datetime:
    return moment or datetime.datetime.max.replace(tzinfo=datetime.UTC)
