# SPDX-License-Identifier: Apache-2.0
"""Columns and rows of what the commands about hosts show."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cliff import columns

from climate_common import dates
from climateclient import host_models
from climateclient.osc.output import TimeColumn

SHORT = ('ID', 'Name', 'Pool', 'Reservable', 'Shared', 'Power', 'VCPUs', 'Memory MB', 'Disk GB')
LONG = (*SHORT, 'Service', 'Zone', 'State', 'Lanes', 'Reason', 'Extra')
ALLOCATIONS = ('Host ID', 'Host', 'Reservation', 'Lease', 'Lease Name', 'Start', 'End')
USAGE = ('Host', 'Start', 'End', 'Hours powered off', 'kWh saved')
PROPERTIES = ('Property', 'Private', 'Values')
POOLS = ('Pool', 'Hosts', 'Projects', 'Domains')


class JsonColumn(columns.FormattableColumn[Any]):
    """A mapping."""

    def human_readable(self) -> str:
        return json.dumps(self._value, sort_keys=True)

    def machine_readable(self) -> Any:
        return self._value


class LinesColumn(columns.FormattableColumn[Any]):
    """A list of texts, one a line."""

    def human_readable(self) -> str:
        return '\n'.join(map(str, self._value))

    def machine_readable(self) -> list[Any]:
        return list(self._value)


class AllocationsColumn(columns.FormattableColumn[Any]):
    """The reservations that a host is allocated to, one a line."""

    def human_readable(self) -> str:
        return '\n'.join(
            f'{dates.display(each.start_date)} - {dates.display(each.end_date)} lease '
            f'{each.lease_name} ({each.lease_id})'
            for each in self._value
        )

    def machine_readable(self) -> list[dict[str, Any]]:
        return [
            {
                **dataclasses.asdict(each),
                'start_date': dates.isoformat(each.start_date),
                'end_date': dates.isoformat(each.end_date),
            }
            for each in self._value
        ]


def show(
    host: host_models.Host, reservations: Sequence[host_models.HostReservation] | None = None
) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Return the fields and the values of a host, as cliff's ShowOne takes them.

    :param reservations: which it is allocated to; None: that is not known
    """
    fields = {each.name: getattr(host, each.name) for each in dataclasses.fields(host)}
    del fields['cpu_info']
    fields |= {
        'capacity': JsonColumn(dict(host.capacity)),
        'extra': JsonColumn(dict(host.extra)),
        'traits': LinesColumn(host.traits),
        'aggregates': LinesColumn(host.aggregates),
        'created_at': TimeColumn(host.created_at),
        'updated_at': TimeColumn(host.updated_at),
    }
    if reservations is not None:
        fields['reservations'] = AllocationsColumn(reservations)
    return tuple(fields), tuple(fields.values())


def row(host: host_models.Host, long: bool) -> tuple[Any, ...]:
    """Return a host in the order of :data:`SHORT` or :data:`LONG`."""
    short = (
        host.id,
        host.hypervisor_hostname,
        host.pool,
        host.reservable,
        host.shared,
        host.power,
        host.vcpus,
        host.memory_mb,
        host.local_gb,
    )
    if not long:
        return short
    rest = (host.service_name, host.availability_zone, host.state, host.lanes)
    return (*short, *rest, host.disabled_reason, JsonColumn(dict(host.extra)))


def allocations(found: Iterable[host_models.HostAllocation]) -> Iterator[tuple[Any, ...]]:
    """Return rows in the order of :data:`ALLOCATIONS`, one for each promise."""
    for allocation in found:
        for each in allocation.reservations:
            times = (TimeColumn(each.start_date), TimeColumn(each.end_date))
            host = (allocation.host_id, allocation.hypervisor_hostname)
            yield (*host, each.id, each.lease_id, each.lease_name, *times)


def usage_row(one: host_models.HostUsage) -> tuple[Any, ...]:
    """Return the usage of a host in the order of :data:`USAGE`."""
    times = (TimeColumn(one.start), TimeColumn(one.end))
    return one.hypervisor_hostname, *times, one.asleep_hours, one.saved_kwh


def property_row(one: host_models.HostProperty) -> tuple[Any, ...]:
    """Return a property in the order of :data:`PROPERTIES`."""
    return one.name, one.private, LinesColumn(one.values)


def pool_row(one: host_models.HostPool) -> tuple[Any, ...]:
    """Return a pool in the order of :data:`POOLS`."""
    return one.name, one.hosts, LinesColumn(one.project_ids), LinesColumn(one.domain_ids)
