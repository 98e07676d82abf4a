# SPDX-License-Identifier: Apache-2.0
"""Check that ordinary servers are kept off the hosts of the pools, as far as that can be seen.

That a nova-scheduler has ``PoolFilter`` no API of Nova or Placement says. What can be seen is a
server that came by no lease, the isolated aggregates of Nova that stand in for a missing filter,
and the nova.conf of this machine.
"""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from oslo_config import cfg

from climate_common import lanes
from climate_core.cloud import hypervisors, placement
from climate_core.db.engine import Database
from climate_hosts.db import hosts as db
from climate_hosts.db.hosts import iterate_all
from climate_hosts.domain.hosts import Host, State
from climate_hosts.watch import rooms as host_rooms

if TYPE_CHECKING:
    from climate_core.cloud import connections

_FILTER: Final = 'PoolFilter'
_ENABLED: Final = [
    cfg.MultiStrOpt('available_filters', default=[]),
    cfg.ListOpt('enabled_filters', default=[]),
]
_BELT: Final = cfg.BoolOpt('enable_isolated_aggregate_filtering', default=False)
#: What is said in any case.
UNSEEN: Final = (
    'Whether every nova-scheduler has PoolFilter cannot be seen from here: no service tells it. '
    'Look at the nova.conf of each.'
)


def find(
    database: Database, conn: 'connections.Connection', files: Sequence[str] | None = None
) -> list[str] | None:
    """Return what is wrong, or may be; None if no pool has a host.

    :param files: of the configuration of nova-scheduler; None: where it would look for them
    """
    if not database.read(db.exist):
        return None
    everything = list(iterate_all(database))
    present = [host for host in everything if host.is_kept]
    rooms = host_rooms.read(conn, everything)
    return [
        *_hidden(rooms.hidden, everything),
        *_entered(conn, present, rooms.inside),
        *_without_isolation(conn, present),
        *_configured(files),
    ]


def _hidden(hidden: Collection[str], everything: Sequence[Host]) -> Iterator[str]:
    found = sorted(h.hypervisor_hostname for h in everything if h.provider_id in hidden)
    if found:
        count = sum(len(host.lane_ids) for host in everything)
        yield (
            f'Placement leaves {_names(found)} out of its answers. Set "[placement] '
            'max_allocation_candidates" in placement.conf to -1, which is its default, or to more '
            f'than the {count} lanes of all hosts, and restart it: until then each of these hosts '
            'is asked for alone.'
        )


def _entered(
    conn: 'connections.Connection',
    present: Sequence[Host],
    rooms: Mapping[str, placement.HostCapacity],
) -> Iterator[str]:
    found = sorted(
        host.hypervisor_hostname
        for host in present
        if host.provider_id in rooms
        and host.state is not State.EMPTYING
        and host.power is None
        and _has_ordinary(conn, rooms[host.provider_id])
    )
    if found:
        yield (
            f'Servers came by no lease to {_names(found)}: a nova-scheduler without PoolFilter '
            'and without isolated aggregates, or a call with "force", put them there.'
        )


def _has_ordinary(conn: 'connections.Connection', room: placement.HostCapacity) -> bool:
    if not any(room.used.values()):
        return False
    return room.has_only_ordinary or bool(placement.list_ordinary(conn, room))


def _without_isolation(conn: 'connections.Connection', present: Sequence[Host]) -> Iterator[str]:
    behind = hypervisors.list_isolated(conn, lanes.TRAIT)
    # Shared ones take ordinary servers again.
    found = sorted({host.service_name for host in present if not host.is_shared} - behind)
    if found:
        yield (
            f'In no host aggregate with trait:{lanes.TRAIT}=required: {_names(found)}. A '
            'nova-scheduler without PoolFilter puts ordinary servers there.'
        )


def _configured(files: Sequence[str] | None) -> Iterator[str]:
    if files is None:
        files = cfg.find_config_files(project='nova', prog='nova-scheduler')
    readable = [each for each in files if os.access(each, os.R_OK)]
    if not readable:
        return
    conf = cfg.ConfigOpts()
    conf.register_opts(_ENABLED, group='filter_scheduler')
    conf.register_opt(_BELT, group='scheduler')
    try:
        conf([], project='nova', default_config_files=readable, default_config_dirs=[])
        has_filter = _has_filter(conf)
        has_belt = conf.scheduler.enable_isolated_aggregate_filtering
    except (cfg.Error, ValueError) as exc:
        yield f'{_names(readable)} could not be read: {exc}'
        return
    if not has_filter:
        yield (
            f'{_names(readable)} does not load and enable PoolFilter in [filter_scheduler], which '
            'the nova-scheduler of this machine needs, if there is one.'
        )
    if not has_belt:
        yield f'{_names(readable)}: [scheduler] enable_isolated_aggregate_filtering is not set.'


def _has_filter(conf: cfg.ConfigOpts) -> bool:
    group = conf.filter_scheduler
    is_loaded = any(each.rpartition('.')[2] == _FILTER for each in group.available_filters)
    return is_loaded and _FILTER in group.enabled_filters


def _names(found: Sequence[str]) -> str:
    return ', '.join(found)
