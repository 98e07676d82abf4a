# SPDX-License-Identifier: Apache-2.0
"""Isolate the hosts of the pools from ordinary servers, and check that they are isolated.

Placement isolates the hosts that are in the aggregate of the pools. ``[placement]
max_allocation_candidates`` limits how many lanes are in an answer of Placement, which does
not report that it left lanes out. So hosts that an answer lacks are read one by one.

No API of Nova or Placement reports whether a nova-scheduler has ``PoolFilter``. What can be
checked is whether a server entered without a lease, the isolated aggregates of Nova that
stand in for a missing filter, and the nova.conf of this machine.
"""

import contextlib
import dataclasses
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from oslo_config import cfg
from sqlalchemy import orm

from climate_common import lanes
from climate_core.cloud import errors
from climate_core.cloud.connections import Connection
from climate_core.cloud.placement import HostCapacity
from climate_core.db.engine import Database
from climate_core.packages import PoolCheck
from climate_hosts import nova, placement
from climate_hosts.db import hosts as db
from climate_hosts.hosts import Host, State

_POOL_FILTER: Final = 'PoolFilter'
_FILTER_OPTIONS: Final = [
    cfg.MultiStrOpt('available_filters', default=[]),
    cfg.ListOpt('enabled_filters', default=[]),
]
_ISOLATION_OPTION: Final = cfg.BoolOpt('enable_isolated_aggregate_filtering', default=False)


def update_isolation(database: Database, conn: Connection, provider_id: str) -> bool:
    """Add a host to the aggregate of the pools, or remove it, as its row in the database requires.

    The row is written before this is called. So any number of processes may enrol a host, remove
    it and repair it at the same time, and each of them may die. The last of them wins: each reads
    the generation first, then the row, and always writes. A process with an older row has an older
    generation, fails to write and reads both again.

    :returns: whether it is isolated; not if Placement has no such provider
    """
    is_isolated = False
    with contextlib.suppress(errors.Gone):
        part = placement.ProviderPart(conn, f'/resource_providers/{provider_id}/aggregates')
        for present in part:
            is_isolated = database.read(must_be_isolated, provider_id)
            others = {*present['aggregates']} - {lanes.POOL}
            part.put({'aggregates': sorted(others | {lanes.POOL} if is_isolated else others)})
        return is_isolated
    return False


@dataclasses.dataclass(frozen=True, slots=True)
class PoolCapacity:
    """The capacity of hosts in Placement, by the id of the root provider.

    :param inside: of the hosts that are isolated from ordinary servers
    :param outside: of the hosts that take ordinary servers
    :param hidden: the hosts that Placement returned only when they were read one by one
    """

    inside: Mapping[str, HostCapacity]
    outside: Mapping[str, HostCapacity]
    hidden: frozenset[str]


def read_capacity(conn: Connection, hosts: Iterable[Host]) -> PoolCapacity:
    """Read the capacity of hosts from Placement.

    One request, one more if some of the hosts take ordinary servers, one for each host that the
    answers lack, and one more if Placement has that host.
    """
    hosts = list(hosts)
    inside = placement.read_host_capacities(conn)
    takes_any_ordinary = any(host.open_to_unreserved for host in hosts)
    outside = placement.read_host_capacities(conn, outside=True) if takes_any_ordinary else {}
    hidden = set()
    for provider_id in {host.provider_id for host in hosts} - inside.keys() - outside.keys():
        alone = placement.read_host_capacities(conn, provider_id)
        if alone:
            is_isolated = placement.is_in_pool(conn, provider_id)
            (inside if is_isolated else outside).update(alone)
            if is_isolated or takes_any_ordinary:
                hidden.add(provider_id)
    return PoolCapacity(inside, outside, frozenset(hidden))


def find_problems(
    database: Database, conn: Connection, files: Sequence[str] | None = None
) -> list[str] | None:
    """Return what is wrong, or may be; None if no pool has a host.

    :param files: of the configuration of nova-scheduler; None: its default files
    """
    if not database.read(db.HOSTS.has_any):
        return None
    everything = list(db.HOSTS.iterate_all(database))
    present = [host for host in everything if host.is_isolated]
    capacities = read_capacity(conn, everything)
    return [
        *_find_hidden(capacities.hidden, everything),
        *_find_unreserved(conn, present, capacities.inside),
        *_find_without_aggregate(conn, present),
        *_find_in_configuration(files),
    ]


def _find_hidden(hidden: Collection[str], everything: Sequence[Host]) -> Iterator[str]:
    found = sorted(h.hypervisor_hostname for h in everything if h.provider_id in hidden)
    if found:
        count = sum(len(host.lane_ids) for host in everything)
        yield (
            f'Placement omits {_join(found)} from its responses. Set "[placement] '
            'max_allocation_candidates" in placement.conf to -1, which is its default, or to more '
            f'than the {count} lanes of all hosts, and restart it: until then each of these hosts '
            'costs a separate request.'
        )


def _find_unreserved(
    conn: Connection,
    present: Sequence[Host],
    capacities: Mapping[str, HostCapacity],
) -> Iterator[str]:
    found = sorted(
        host.hypervisor_hostname
        for host in present
        if host.provider_id in capacities
        and host.state is not State.EMPTYING
        and host.power is None
        and _has_unreserved(conn, capacities[host.provider_id])
    )
    if found:
        yield (
            f'Servers entered {_join(found)} without a lease: a nova-scheduler without PoolFilter '
            'and without isolated aggregates, or a call with "force", put them there.'
        )


def _has_unreserved(conn: Connection, capacity: HostCapacity) -> bool:
    if not any(capacity.used.values()):
        return False
    return capacity.has_only_ordinary or bool(placement.list_ordinary(conn, capacity))


def _find_without_aggregate(conn: Connection, present: Sequence[Host]) -> Iterator[str]:
    behind = nova.list_isolated_hosts(conn, lanes.TRAIT)
    # Shared ones take ordinary servers again.
    found = sorted({host.service_name for host in present if not host.is_shared} - behind)
    if found:
        yield (
            f'In no host aggregate with trait:{lanes.TRAIT}=required: {_join(found)}. A '
            'nova-scheduler without PoolFilter puts ordinary servers there.'
        )


def _find_in_configuration(files: Sequence[str] | None) -> Iterator[str]:
    if files is None:
        files = cfg.find_config_files(project='nova', prog='nova-scheduler')
    readable = [file for file in files if os.access(file, os.R_OK)]
    if not readable:
        return
    conf = cfg.ConfigOpts()
    conf.register_opts(_FILTER_OPTIONS, group='filter_scheduler')
    conf.register_opt(_ISOLATION_OPTION, group='scheduler')
    try:
        conf([], project='nova', default_config_files=readable, default_config_dirs=[])
        has_filter = _has_filter(conf)
        has_belt = conf.scheduler.enable_isolated_aggregate_filtering
    except (cfg.Error, ValueError) as exc:
        yield f'{_join(readable)} could not be read: {exc}'
        return
    if not has_filter:
        yield (
            f'{_join(readable)} does not load and enable PoolFilter in [filter_scheduler], which '
            'the nova-scheduler of this machine needs, if there is one.'
        )
    if not has_belt:
        yield f'{_join(readable)}: [scheduler] enable_isolated_aggregate_filtering is not set.'


def _has_filter(conf: cfg.ConfigOpts) -> bool:
    group = conf.filter_scheduler
    is_loaded = any(name.rpartition('.')[2] == _POOL_FILTER for name in group.available_filters)
    return is_loaded and _POOL_FILTER in group.enabled_filters


def _join(names: Sequence[str]) -> str:
    return ', '.join(names)


def must_be_isolated(session: orm.Session, provider_id: str) -> bool:
    """Return whether ordinary servers are to be kept off a host.

    :param provider_id: its root provider in Placement
    """
    found = db.HOSTS.find(session, db.HOSTS.table.c.provider_id == provider_id)
    return any(host.is_isolated for host in found)


class HostCheck(PoolCheck):
    """Check that the hosts of the pools are isolated from ordinary servers."""

    title = 'Hosts of the pools'
    unchecked = 'The hosts could not be checked'
    empty = 'No pool has a host.'
    limits = (
        'Climate cannot check whether every nova-scheduler has PoolFilter: no service reports it. '
        'Check the nova.conf of each.'
    )

    def find_problems(self, database: Database, conn: Connection) -> list[str] | None:
        return find_problems(database, conn)
