# SPDX-License-Identifier: Apache-2.0
"""Decide which leases of Blazar can be taken over, and why others cannot. Pure.

Times are in UTC, without an offset, as Blazar stores them.
"""

import dataclasses
import datetime
import enum
import ipaddress
import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from climate_common import resource_types, words
from climate_common.event_types import END, START
from climate_core import exceptions
from climate_core.plugins import filters
from climate_hosts import hosts

#: A row of a table of Blazar, by the names of its columns.
Row = Mapping[str, Any]

_PENDING, _ACTIVE = 'PENDING', 'ACTIVE'
#: The statuses of leases that have ended or failed: they stay in Blazar.
_HISTORY: Final = ('TERMINATED', 'ERROR')
#: The status of the reservations of a lease -> that of the lease.
_RESERVATION_STATUS: Final = {_PENDING: 'pending', _ACTIVE: 'active'}
#: A type of resource in Blazar -> the table of its reservations.
_RESERVATIONS: Final = {
    resource_types.HOST: 'computehost_reservations',
    resource_types.SERVER: 'instance_reservations',
    resource_types.CAPACITY: 'instance_reservations',
    resource_types.FLOATING_IP: 'floatingip_reservations',
}
#: The sizes of a host that instances by size share.
_SIZES: Final = {'vcpus': 'vcpus', 'memory_mb': 'memory_mb', 'local_gb': 'disk_gb'}


class Severity(enum.StrEnum):
    """The effect of a finding on the import."""

    #: Its lease or resource cannot be taken over.
    STOP = 'stop'
    #: It can be taken over, and differs afterwards.
    DIFFERENCE = 'difference'
    #: It is as it should be before the import, and must not be at the import.
    NOTE = 'note'


@dataclasses.dataclass(frozen=True, slots=True)
class Contents:
    """The contents of the database of Blazar.

    :param rows: of each of :data:`climate_hosts.blazar.source.TABLES`
    :param now: the time of its server
    :param connections: the number of other connections to it
    """

    rows: Mapping[str, Sequence[Row]]
    now: datetime.datetime
    connections: int


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """Why something cannot be taken over, or what differs afterwards.

    :param about: ``lease``, ``host``, ``floating IP`` or ``Blazar``
    :param id: of the lease or resource in Blazar
    """

    severity: Severity
    about: str
    id: str
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class PlannedLease:
    """A lease of Blazar that is PENDING, ACTIVE or in a transitional status.

    :param resource_types: those of its reservations, as the API names them
    :param hosts: the names of its hosts
    :param floatingips: the addresses of its floating IPs
    :param can_be_imported: whether nothing stops it, or what is allocated to it
    """

    id: str
    name: str
    project_id: str | None
    status: str
    start_date: datetime.datetime
    end_date: datetime.datetime
    resource_types: Sequence[str]
    hosts: Sequence[str]
    floatingips: Sequence[str]
    can_be_imported: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """The leases, hosts and addresses that an import would take over, and the findings.

    :param history: status -> number of the leases that stay in Blazar
    :param next_event: when the next event of Blazar is due; None: none is
    """

    leases: Sequence[PlannedLease]
    findings: Sequence[Finding]
    hosts: int
    floatingips: int
    history: Mapping[str, int]
    next_event: datetime.datetime | None

    @property
    def is_stopped(self) -> bool:
        """Return whether something cannot be taken over."""
        return any(each.severity is Severity.STOP for each in self.findings)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The leases, hosts and addresses that Climate has already.

    :param lease_ids: the ids of the leases of Blazar that Climate has, too
    :param host_names: the hosts of its pools
    :param addresses: the floating IPs that are registered, each with its network
    :param lanes: the number of leases that can have a host at the same time
    """

    lease_ids: Collection[str] = ()
    host_names: Collection[str] = ()
    addresses: Collection[tuple[str, str]] = ()
    lanes: int = 4


def make_plan(contents: Contents, present: Present) -> Plan:
    """Compare what Blazar has with what Climate can take over."""
    return _Planner(contents, present).plan()


class _Planner:
    """The rows of Blazar by what they belong to."""

    def __init__(self, contents: Contents, present: Present) -> None:
        self._contents, self._present, self._now = contents, present, contents.now
        rows = contents.rows
        self._live = [each for each in rows['leases'] if each['status'] not in _HISTORY]
        self._reservations = _group(rows['reservations'], 'lease_id')
        self._events = _group(rows['events'], 'lease_id')
        self._hosts = {each['id']: each for each in rows['computehosts']}
        self._addresses = {each['id']: each for each in rows['floatingips']}
        self._of_reservation = {
            table: {each['reservation_id']: each for each in rows[table]}
            for table in set(_RESERVATIONS.values())
        }
        self._host_allocations = _group(rows['computehost_allocations'], 'reservation_id')
        self._address_allocations = _group(rows['floatingip_allocations'], 'reservation_id')
        self._required = _group(rows['required_floatingips'], 'floatingip_reservation_id')

    def plan(self) -> Plan:
        found = [*self._check_service(), *self._check_hosts(), *self._check_addresses()]
        for lease in self._live:
            found += (_about_lease(lease, *each) for each in self._check_lease(lease))
        found += self._check_overlaps()
        findings = sorted(dict.fromkeys(found), key=lambda each: (each.about, each.id))
        stopped = {each.id for each in findings if each.severity is Severity.STOP}
        ordered = sorted(self._live, key=lambda each: (each['start_date'], each['id']))
        return Plan(
            leases=[self._plan_lease(each, stopped) for each in ordered],
            findings=findings,
            hosts=len(self._hosts),
            floatingips=len(self._addresses),
            history=Counter(
                each['status']
                for each in self._contents.rows['leases']
                if each['status'] in _HISTORY
            ),
            next_event=min((each['time'] for each in self._open_events()), default=None),
        )

    def _plan_lease(self, lease: Row, stopped: Collection[str]) -> PlannedLease:
        """Return a lease.

        :param stopped: the ids of the leases, hosts and floating IPs that cannot be taken over
        """
        held = self._reservations[lease['id']]
        host_ids = {
            each['compute_host_id'] for row in held for each in self._host_allocations[row['id']]
        }
        address_ids = {
            each['floatingip_id'] for row in held for each in self._address_allocations[row['id']]
        }
        names = sorted(
            self._hosts[each]['hypervisor_hostname'] for each in host_ids & {*self._hosts}
        )
        addresses = sorted(
            self._addresses[each]['floating_ip_address']
            for each in address_ids & {*self._addresses}
        )
        return PlannedLease(
            id=lease['id'],
            name=lease['name'],
            project_id=lease['project_id'],
            status=lease['status'],
            start_date=lease['start_date'],
            end_date=lease['end_date'],
            resource_types=sorted({each['resource_type'] for each in held}),
            hosts=names,
            floatingips=addresses,
            can_be_imported=not {lease['id'], *names, *addresses} & {*stopped},
        )

    def _open_events(self) -> Iterator[Row]:
        """Yield the events of PENDING and ACTIVE leases that Blazar is to run."""
        for lease in self._live:
            for event in self._events[lease['id']]:
                # Blazar never runs an event without a time.
                if event['status'] == 'UNDONE' and event['time'] is not None:
                    yield event

    def _check_service(self) -> Iterator[Finding]:
        """Report signs that the services of Blazar are running."""
        if self._contents.connections:
            count = words.counted(self._contents.connections, 'other connection')
            yield Finding(
                Severity.NOTE,
                'Blazar',
                'services',
                f'The database has {count}: services of Blazar are running.',
            )
        trusts = sum(1 for each in self._live if each['trust_id'])
        if trusts:
            yield Finding(
                Severity.NOTE,
                'Blazar',
                'trusts',
                f'{words.counted(trusts, "lease")} with a trust: only the user of Blazar can use '
                'it, and Climate cannot take it over.',
            )

    def _check_hosts(self) -> Iterator[Finding]:
        names = {each['id']: each for each in self._contents.rows['resource_properties']}
        extras: dict[str, list[str]] = defaultdict(list)
        for each in self._contents.rows['computehost_extra_capabilities']:
            extras[each['computehost_id']].append(names[each['property_id']]['property_name'])
        by_name = Counter(each['hypervisor_hostname'] for each in self._hosts.values())
        for host_id, host in self._hosts.items():
            name = host['hypervisor_hostname']
            for reason in self._check_host(name, extras[host_id], by_name[name]):
                yield Finding(Severity.STOP, 'host', name, reason)

    def _check_host(self, name: str, extra: Iterable[str], count: int) -> Iterator[str]:
        if name in self._present.host_names:
            yield 'The host is in a pool of Climate already.'
        if count > 1:
            yield 'Several hosts have this hypervisor_hostname.'
        for each in sorted(extra):
            try:
                hosts.check_extra({each: ''})
            except exceptions.BadRequest as exc:
                yield f'The extra capability cannot be taken over: {exc}'

    def _check_addresses(self) -> Iterator[Finding]:
        for each in self._addresses.values():
            address = each['floating_ip_address']
            reason = None
            if (each['floating_network_id'], address) in self._present.addresses:
                reason = 'The floating IP is registered in Climate already.'
            elif not _is_ipv4(address):
                reason = 'Climate has only floating IPs of IPv4.'
            if reason is not None:
                yield Finding(Severity.STOP, 'floating IP', address, reason)

    def _check_lease(self, lease: Row) -> Iterator[tuple[Severity, str]]:
        for reason in self._check_state(lease):
            yield Severity.STOP, reason
        held = self._reservations[lease['id']]
        if not held:
            yield Severity.STOP, 'The lease has no reservations.'
        for row in held:
            yield from self._check_reservation(lease, row)

    def _check_state(self, lease: Row) -> Iterator[str]:
        """Check what a lease has beside its reservations."""
        status = lease['status']
        if lease['id'] in self._present.lease_ids:
            yield 'Climate has a lease with this id.'
        if status not in _RESERVATION_STATUS:
            yield f'The lease is {status}: wait until it is PENDING or ACTIVE, or delete it.'
            return
        if lease['project_id'] is None or lease['user_id'] is None:
            yield 'The lease has no project or no user.'
        events = self._events[lease['id']]
        for event_type, date in ((START, 'start_date'), (END, 'end_date')):
            mine = [each for each in events if each['event_type'] == event_type]
            if len(mine) != 1:
                yield f'The lease has {words.counted(len(mine), "event")} {event_type}.'
            elif mine[0]['time'] != lease[date]:
                yield f'The event {event_type} is not at the {date} of the lease.'
        if any(each['status'] == 'IN_PROGRESS' for each in events):
            yield 'An event of the lease is IN_PROGRESS: wait until Blazar has finished it.'
        if any(each['status'] == 'ERROR' for each in events):
            yield 'An event of the lease is in ERROR.'
        if status == _PENDING and lease['start_date'] <= self._now:
            yield 'The lease is PENDING after its start: Blazar has not started it.'
        if lease['end_date'] <= self._now:
            yield f'The lease is {status} after its end: Blazar has not ended it.'

    def _check_reservation(self, lease: Row, row: Row) -> Iterator[tuple[Severity, str]]:
        name, resource_type = f'reservation {row["id"]}', row['resource_type']
        table = _RESERVATIONS.get(resource_type)
        if table is None:
            yield Severity.STOP, f'The type of {name} is unknown to Climate: {resource_type}.'
            return
        wanted = _RESERVATION_STATUS.get(lease['status'])
        if wanted is not None and row['status'] != wanted:
            yield Severity.STOP, f'The {name} is {row["status"]}, and its lease {lease["status"]}.'
        mine = self._of_reservation[table].get(row['id'])
        if mine is None:
            yield Severity.STOP, f'The {name} has no row in {table}.'
            return
        if row['missing_resources']:
            yield Severity.DIFFERENCE, f'The {name} has missing resources in Blazar already.'
        if resource_type == resource_types.FLOATING_IP:
            found = self._check_floatingips(name, row, mine)
        else:
            found = self._check_allocated_hosts(name, row, mine)
        yield from found
        yield from _check_properties(name, resource_type, mine)

    def _check_allocated_hosts(
        self, name: str, row: Row, mine: Row
    ) -> Iterator[tuple[Severity, str]]:
        allocations = self._host_allocations[row['id']]
        if any(each['compute_host_id'] not in self._hosts for each in allocations):
            yield Severity.STOP, f'The {name} has a host that Blazar does not have.'
        amount: int | None
        if row['resource_type'] == resource_types.HOST:
            amount = _parse_minimum(mine['count_range'])
        else:
            amount = mine['amount']
        if amount is None:
            yield Severity.STOP, f'The count_range of {name} is invalid: {mine["count_range"]}.'
        elif len(allocations) < amount:
            noun = 'host' if row['resource_type'] == resource_types.HOST else 'instance'
            yield (
                Severity.STOP,
                f'The {name} has allocations for {words.counted(len(allocations), noun)} of '
                f'{amount}.',
            )

    def _check_floatingips(self, name: str, row: Row, mine: Row) -> Iterator[tuple[Severity, str]]:
        allocations = self._address_allocations[row['id']]
        if any(each['floatingip_id'] not in self._addresses for each in allocations):
            yield Severity.STOP, f'The {name} has a floating IP that Blazar does not have.'
        if len(allocations) != mine['amount']:
            yield (
                Severity.STOP,
                f'The {name} has {words.counted(len(allocations), "floating IP")} of '
                f'{mine["amount"]}.',
            )
        required = len(self._required[mine['id']])
        if 0 < required < mine['amount']:
            yield (
                Severity.DIFFERENCE,
                f'The {name} requires {required} of {mine["amount"]} addresses: it has the '
                'addresses that Blazar allocated, and requires none afterwards.',
            )

    def _check_overlaps(self) -> Iterator[Finding]:
        """Report hosts and addresses that are allocated twice at the same time."""
        by_host: dict[str, list[tuple[Row, Row, int]]] = defaultdict(list)
        by_address: dict[str, list[tuple[Row, Row, int]]] = defaultdict(list)
        for lease in self._live:
            for row in self._reservations[lease['id']]:
                counted = Counter(
                    each['compute_host_id'] for each in self._host_allocations[row['id']]
                )
                for host_id, count in counted.items():
                    by_host[host_id].append((lease, row, count))
                for each in self._address_allocations[row['id']]:
                    by_address[each['floatingip_id']].append((lease, row, 1))
        for host_id in by_host.keys() & self._hosts.keys():
            yield from self._check_shared_host(self._hosts[host_id], by_host[host_id])
        for address_id in by_address.keys() & self._addresses.keys():
            address = self._addresses[address_id]['floating_ip_address']
            yield from _check_alone(f'floating IP {address}', by_address[address_id])

    def _check_shared_host(
        self, host: Row, allocations: Sequence[tuple[Row, Row, int]]
    ) -> Iterator[Finding]:
        name = f'host {host["hypervisor_hostname"]}'
        yield from _check_alone(name, allocations)
        for lease, _, _ in allocations:
            at_once = [each for each in allocations if _covers(each[0], lease['start_date'])]
            if len({row['id'] for _, row, _ in at_once}) > self._present.lanes:
                yield _about_lease(
                    lease,
                    Severity.STOP,
                    f'{len(at_once)} reservations have the {name} at the same time, and [hosts] '
                    f'lanes_per_host is {self._present.lanes}.',
                )
            for size, column in _SIZES.items():
                needed = sum(self._read_size(row, column) * count for _, row, count in at_once)
                if needed > host[size]:
                    yield _about_lease(
                        lease,
                        Severity.STOP,
                        f'The {name} has {size} {host[size]}, and {needed} are allocated at '
                        f'{lease["start_date"]}.',
                    )

    def _read_size(self, row: Row, column: str) -> int:
        """Return an amount of an instance by size; others need no amount of a host."""
        if row['resource_type'] != resource_types.SERVER:
            return 0
        mine = self._of_reservation['instance_reservations'].get(row['id'])
        return mine[column] if mine else 0


def _check_alone(name: str, allocations: Iterable[tuple[Row, Row, int]]) -> Iterator[Finding]:
    """Report a unit that is allocated to a reservation as a whole, and to another one, too."""
    for (lease, row, _), (other, second, _) in itertools.combinations(allocations, 2):
        types = {row['resource_type'], second['resource_type']}
        is_whole = bool(types & {resource_types.HOST, resource_types.FLOATING_IP})
        if is_whole and row is not second and _overlap(lease, other):
            for mine, theirs in ((lease, other), (other, lease)):
                yield _about_lease(
                    mine,
                    Severity.STOP,
                    f'The {name} is allocated to lease {theirs["id"]}, too, from '
                    f'{max(lease["start_date"], other["start_date"])} to '
                    f'{min(lease["end_date"], other["end_date"])}.',
                )


def _check_properties(name: str, resource_type: str, mine: Row) -> Iterator[tuple[Severity, str]]:
    """Report conditions on hosts that Climate rejects, and an action that it does not have."""
    fields = ['hypervisor_properties', 'resource_properties']
    if resource_type == resource_types.CAPACITY:
        # Blazar stores the flavor of the request there.
        fields.remove('resource_properties')
    values = {field: mine.get(field) for field in fields}
    try:
        filters.compile_filter(values)
    except exceptions.BadRequest as exc:
        yield (
            Severity.DIFFERENCE,
            f'Climate rejects the conditions of {name} when they are changed: {exc}',
        )
    if mine.get('before_end') not in (None, '', 'default'):
        yield (
            Severity.DIFFERENCE,
            f'The {name} has before_end {mine["before_end"]}, which has no effect in Climate.',
        )


def _about_lease(lease: Row, severity: Severity, reason: str) -> Finding:
    return Finding(severity, 'lease', lease['id'], reason)


def _parse_minimum(text: str | None) -> int | None:
    """Return the first number of ``1-2``; None: it is invalid."""
    first = (text or '').partition('-')[0]
    return int(first) if first.isdecimal() else None


def _is_ipv4(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 4
    except ValueError:
        return False


def _covers(lease: Row, time: datetime.datetime) -> bool:
    return bool(lease['start_date'] <= time < lease['end_date'])


def _overlap(lease: Row, other: Row) -> bool:
    return bool(
        lease['start_date'] < other['end_date'] and other['start_date'] < lease['end_date']
    )


def _group(rows: Iterable[Row], key: str) -> Mapping[Any, list[Row]]:
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[row[key]].append(row)
    return found
