# SPDX-License-Identifier: Apache-2.0
"""Columns and rows of what commands show.

The table is for people and in their time zone. All other formats (-f json, yaml, csv, value,
shell) get times as ISO 8601 in UTC, reservations and events as lists of mappings.
"""

import dataclasses
import datetime
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cliff import columns
from osc_lib.cli import format_columns

from climate_common import dates, lease_fields
from climateclient import exceptions, models


class TimeColumn(columns.FormattableColumn[Any]):
    """A time; None is shown as nothing."""

    def human_readable(self) -> str:
        return dates.display(self._value)

    def machine_readable(self) -> str | None:
        return dates.isoformat(self._value)

    def __lt__(self, other: object) -> bool:
        return isinstance(other, TimeColumn) and _order(self._value) < _order(other._value)


class ListedTimeColumn(TimeColumn):
    """A time in a table with many columns."""

    def human_readable(self) -> str:
        return dates.display(self._value, is_named=False)


class EarliestColumn(TimeColumn):
    """A time from which on something is free: in seconds it is the first that is not too early."""

    def human_readable(self) -> str:
        return dates.display(self._value and dates.round_up(self._value))


class ReservationsColumn(columns.FormattableColumn[Any]):
    """The reservations of a lease, one a line."""

    def human_readable(self) -> str:
        return '\n'.join(_reservation_line(each) for each in self._value)

    def machine_readable(self) -> list[dict[str, Any]]:
        return [_plain(each) for each in self._value]


class EventsColumn(columns.FormattableColumn[Any]):
    """The events of a lease, one a line, in the order of their times."""

    def human_readable(self) -> str:
        return '\n'.join(_event_line(each) for each in self._value)

    def machine_readable(self) -> list[dict[str, Any]]:
        return [_plain(each) for each in self._value]


class SecondsColumn(columns.FormattableColumn[Any]):
    """Numbers of seconds."""

    def human_readable(self) -> str:
        lengths = (datetime.timedelta(seconds=each) for each in self._value)
        return ', '.join(dates.display_duration(each) for each in lengths)

    def machine_readable(self) -> list[int]:
        return list(self._value)


class WebhookColumn(columns.FormattableColumn[Any]):
    """The URL of a webhook, and the patterns of its notifications."""

    def human_readable(self) -> str:
        if self._value is None:
            return ''
        events = ', '.join(self._value.events)
        return f'{self._value.url} (notifications: {"all" if events == "*" else events})'

    def machine_readable(self) -> dict[str, Any] | None:
        return None if self._value is None else _plain(self._value)


class RefusalsColumn(columns.FormattableColumn[Any]):
    """The reasons why a lease would not be granted, one a line."""

    def human_readable(self) -> str:
        return '\n'.join(_refusal_line(each) for each in self._value)

    def machine_readable(self) -> list[dict[str, Any]]:
        return [_plain(each) for each in self._value]


class ChangesColumn(columns.FormattableColumn[Any]):
    """The changes of a history entry, one field a line: ``status: PENDING -> ACTIVE``."""

    def human_readable(self) -> str:
        return '\n'.join(_change_lines(self._value))

    def machine_readable(self) -> dict[str, Any]:
        return dict(self._value)


def show(lease: models.Lease) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Return the fields and the values of a lease, as cliff's ShowOne takes them."""
    fields = {
        field.name: getattr(lease, field.name) for field in lease_fields.shown_in(lease_fields.API)
    }
    for name, value in fields.items():
        column = _COLUMNS.get(lease_fields.BY_NAME[name].type)
        fields[name] = column(value) if column else value
    return tuple(fields), tuple(fields.values())


#: A type of a field -> the column that shows it; the others are shown as they are.
_COLUMNS: Final = {
    lease_fields.DATE: TimeColumn,
    lease_fields.STAMP: TimeColumn,
    lease_fields.SECONDS: SecondsColumn,
    lease_fields.WEBHOOK: WebhookColumn,
    lease_fields.RESERVATIONS: ReservationsColumn,
    lease_fields.EVENTS: EventsColumn,
}
SHORT = ('ID', 'Name', 'Status', 'Start', 'End')
LONG = (*SHORT, 'Reservations', 'Project', 'User', 'Reason')


def row(lease: models.Lease, long: bool) -> tuple[Any, ...]:
    """Return a lease in the order of the columns :data:`SHORT` or :data:`LONG`."""
    short = (
        lease.id,
        lease.name,
        lease.status,
        ListedTimeColumn(lease.start_date),
        ListedTimeColumn(lease.end_date),
    )
    if not long:
        return short
    rest = (ReservationsColumn(lease.reservations), lease.project_id, lease.user_id)
    return (*short, *rest, lease.status_reason)


HISTORY = ('Time', 'Action', 'Result', 'Reason', 'Changes')
HISTORY_LONG = ('ID', *HISTORY, 'User', 'Request')


def entry(one: models.HistoryEntry, long: bool) -> tuple[Any, ...]:
    """Return a history entry in the order of :data:`HISTORY` or :data:`HISTORY_LONG`."""
    short = (TimeColumn(one.time), one.action, one.result, one.reason, ChangesColumn(one.changes))
    return (one.id, *short, one.user_id, one.request_id) if long else short


def dry_run(
    one: models.DryRun, kind: str | None = None
) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Return the outcome of a dry run, as cliff's ShowOne takes it.

    :param kind: of the lease, if one was asked for
    """
    fields = {
        'outcome': _outcome(one, kind),
        'granted': one.granted,
        'waits': one.waits,
        'refusals': RefusalsColumn(one.refusals),
        'available_from': EarliestColumn(one.available_from),
        'start_date': TimeColumn(one.start_date),
        'end_date': TimeColumn(one.end_date),
    }
    return tuple(fields), tuple(fields.values())


def _outcome(one: models.DryRun, kind: str | None) -> str:
    """Return what ``granted`` and ``waits`` mean together, as a sentence."""
    if one.granted and one.waits:
        return 'The lease would be created, and queued until leases are preempted for it.'
    if one.granted:
        return 'The lease would be created.'
    if one.waits and kind == 'best_effort':
        return 'The lease would be created, and queued until shared hosts are drained.'
    if one.waits:
        return 'The lease would be created, and queued until there is sufficient capacity.'
    return 'The lease would be rejected.'


def reservation(one: models.Reservation) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Return a reservation, as cliff's ShowOne takes it."""
    fields = {each.name: getattr(one, each.name) for each in dataclasses.fields(one)}
    fields |= fields.pop('params', {})
    shown = {
        key: TimeColumn(each) if isinstance(each, datetime.datetime) else each
        for key, each in fields.items()
    }
    return tuple(shown), tuple(shown.values())


RESERVATIONS: Final = ('ID', 'Resource Type', 'Status', 'Resources')


def reservation_row(one: models.Reservation) -> tuple[Any, ...]:
    """Return a reservation in the order of :data:`RESERVATIONS`."""
    resource = one.resource_id or one.params.get('network_name')
    names = one.params.get('hosts') or one.params.get('floatingips')
    resources = names or ([resource] if resource else [])
    return (one.id, one.resource_type, one.status, format_columns.ListColumn(resources))


_HOURS = {
    'server_hours': 'Servers',
    'vcpu_hours': 'VCPUs',
    'memory_gib_hours': 'Memory GiB',
    'disk_gb_hours': 'Disk GiB',
    'volume_hours': 'Volumes',
    'volume_gb_hours': 'Volume GiB',
    'stack_hours': 'Stacks',
    'host_hours': 'Hosts',
    'floatingip_hours': 'Floating IPs',
    'network_hours': 'Networks',
}
_USAGE = ('Project', 'Start', 'End', 'Leases')


def usage_names(planned: bool = False) -> tuple[str, ...]:
    """Return the names of the columns of :func:`usage`."""
    kinds = ('reserved', 'used', 'preempted', *(('planned',) if planned else ()))
    return (*_USAGE, *(f'{name} {kind}' for kind in kinds for name in _HOURS.values()))


def usage(one: models.ProjectUsage, planned: bool = False) -> tuple[Any, ...]:
    """Return all amounts of the usage of a project, in hours."""
    kinds = _usage_kinds(one, planned)
    hours = (kind.get(key) for kind in kinds for key in _HOURS)
    return (one.project_id, TimeColumn(one.start), TimeColumn(one.end), one.leases, *hours)


def usage_amount_names(planned: bool = False) -> tuple[str, ...]:
    """Return the names of the columns of :func:`usage_amounts`."""
    more = ('Planned',) if planned else ()
    return (*_USAGE, 'Hours Of', 'Reserved', 'Used', 'Preempted', *more)


def usage_amounts(one: models.ProjectUsage, planned: bool = False) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each amount of which a project has hours."""
    kinds = _usage_kinds(one, planned)
    who = (one.project_id, ListedTimeColumn(one.start), ListedTimeColumn(one.end), one.leases)
    for key, name in _HOURS.items():
        hours = [kind.get(key) or 0 for kind in kinds]
        if any(hours):
            yield *who, name, *(f'{each:.2f}' for each in hours)


def _usage_kinds(one: models.ProjectUsage, planned: bool) -> list[Mapping[str, float]]:
    return [one.reserved, one.used, one.preempted, *([one.planned or {}] if planned else [])]


def _refusal_line(refusal: models.Refusal) -> str:
    code = f' ({refusal.code})' if refusal.code else ''
    return f'{exceptions.blame(refusal.field, refusal.message)}{code}'


def _change_lines(changes: Mapping[str, Any], within: str = '') -> Iterator[str]:
    for name, value in changes.items():
        if isinstance(value, Mapping):
            yield from _change_lines(value, f'{within}{name} ')
        elif isinstance(value, list) and len(value) == 2:
            yield f'{within}{name}: {_word(name, value[0])} -> {_word(name, value[1])}'
        else:
            yield f'{within}{name}: {_word(name, value)}'


def _word(name: str, value: Any) -> str:
    if value is None:
        return 'none'
    if isinstance(value, Mapping):
        value = _given(value)
    return _local(name, value) if isinstance(value, str) else json.dumps(value)


def _given(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a reservation says something: most of what it could have is left out."""
    return {key: value for key, value in params.items() if value not in (None, '', [])}


def _local(name: str, value: Any) -> Any:
    """Return a time of the service as people read it, and any other value as it is."""
    if not (isinstance(value, str) and name.endswith(('_date', '_at'))):
        return value
    try:
        return dates.display(models.time_of(value))
    except ValueError:
        return value


def _reservation_line(reservation: models.Reservation) -> str:
    params = [f'{k}={_local(k, v)}' for k, v in _given(reservation.params).items()]
    flags = [
        name for name in ('missing_resources', 'resources_changed') if getattr(reservation, name)
    ]
    # Servers name the reservation of hosts: what the calendar promises has no id of its own.
    name = f'resource={reservation.resource_id}' if reservation.resource_id else ''
    if {'hosts', 'floatingips', 'network_name'} & reservation.params.keys():
        name = f'reservation={reservation.id}'
    line = f'{reservation.resource_type} {name} {reservation.status}'
    return _joined(line, ' '.join(params), ' '.join(flags), reservation.status_reason)


def _event_line(event: models.Event) -> str:
    line = f'{dates.display(event.time)} {event.event_type} {event.status}'
    return _joined(line, event.status_reason)


def _joined(line: str, *details: str | None) -> str:
    return ', '.join([' '.join(line.split()), *(detail for detail in details if detail)])


def _plain(value: Any) -> dict[str, Any]:
    """Return a value of :mod:`climateclient.models` as a mapping of JSON types."""
    fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    fields |= fields.pop('params', {})
    return {
        key: dates.isoformat(each) if isinstance(each, datetime.datetime) else each
        for key, each in fields.items()
    }


def _order(moment: datetime.datetime | None) -> datetime.datetime:
    return moment or datetime.datetime.max.replace(tzinfo=datetime.UTC)
