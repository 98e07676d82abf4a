# SPDX-License-Identifier: Apache-2.0
"""Compare the hosts of the pools with Placement, and repair what differs.

A host in the aggregate of the pools without a row keeps ordinary servers away for nothing: another
tool put it there, or a backup of the database was restored. A host that has a row and is not in it
lets ordinary servers in.
One whose enrolment was cut off, or that was half taken out, is told: its operator has to say which
of both it shall be.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from climate_core.cloud import placement
from climate_core.db.engine import Database
from climate_core.repair.operator_repair import RepairResult, repair_remote
from climate_hosts.cloud import lane_providers
from climate_hosts.db.hosts import iterate_all
from climate_hosts.domain.hosts import Host
from climate_hosts.watch import lanes as host_lanes
from climate_hosts.watch import lost_lanes, pool_aggregate

if TYPE_CHECKING:
    from climate_core.cloud import connections

_GONE: Final = 'Placement has it no more: delete it'


class HostRepair:
    """Repair hosts, or say what would be done.

    :param yes: whether to do it
    """

    def __init__(
        self,
        database: Database,
        conn: 'connections.Connection',
        yes: bool,
    ) -> None:
        self._database = database
        self._conn = conn
        self._yes = yes

    def run(self) -> Iterator[RepairResult]:
        """Compare, and repair each thing that is wrong."""
        # A row is written before its host is put into the aggregate.
        members = {each.id: each.name for each in placement.list_pool(self._conn)}
        present = {host.provider_id: host for host in iterate_all(self._database)}
        for provider_id in sorted(members.keys() - present.keys()):
            yield self._give_back(provider_id, f'no pool has the host {members[provider_id]}')
        for provider_id, host in sorted(present.items()):
            name = host.hypervisor_hostname
            if host.is_leaving:
                wrong = 'it was not taken out of its pool completely: delete it'
                yield RepairResult(name, wrong, None)
            elif host.is_half_enrolled:
                wrong = 'its enrolment has not ended: enrol it again, or delete it'
                yield RepairResult(name, wrong, None)
            elif host.takes_ordinary and provider_id in members:
                yield self._give_back(provider_id, f'no lease has the shared host {name}')
            elif host.is_kept and provider_id not in members:
                yield self._missing_aggregate(host)
        yield from self._lanes(present)

    def _give_back(self, provider_id: str, wrong: str) -> RepairResult:
        return self._do(
            provider_id,
            f'{wrong}, but ordinary servers are kept off',
            'give it back to them',
            pool_aggregate.update,
            self._database,
            self._conn,
            provider_id,
        )

    def _missing_aggregate(self, host: Host) -> RepairResult:
        name = host.hypervisor_hostname
        if not placement.has_provider(self._conn, host.provider_id):
            return RepairResult(name, _GONE, None)
        return self._do(
            name,
            'ordinary servers are not kept off it',
            'keep them off',
            pool_aggregate.update,
            self._database,
            self._conn,
            host.provider_id,
        )

    def _lanes(self, present: Mapping[str, Host]) -> Iterator[RepairResult]:
        """Close lanes that are nobody's any more, and make those anew that hosts lack."""
        found = placement.list_lanes(self._conn)
        for lane in found:
            if lane.root_id not in present and lane_providers.is_open(self._conn, lane.id):
                yield self._do(
                    lane.name,
                    'it lets servers in, but its host is in no pool',
                    'close it',
                    lane_providers.close_lane,
                    self._conn,
                    lane.id,
                )
        ids = {each.id: each.name for each in found}
        for host in present.values():
            for lane_id, kept in host_lanes.find_unexplained(self._database, self._conn, host):
                yield self._do(
                    ids.get(lane_id, lane_id),
                    'it is kept by a reservation that is over, or that there never was',
                    'close it',
                    lane_providers.clear_lane,
                    self._conn,
                    lane_id,
                    kept,
                )
            lost = [n for n, lane_id in enumerate(host.lane_ids) if lane_id not in ids]
            if lost and not host.is_new and not host.is_leaving:
                yield from self._lost_lanes(host, lost)

    def _lost_lanes(self, host: Host, lost: Sequence[int]) -> Iterator[RepairResult]:
        name = host.hypervisor_hostname
        if placement.has_provider(self._conn, host.provider_id):
            yield self._do(
                name,
                f'{len(lost)} of its {len(host.lane_ids)} lanes are not in Placement',
                'make them anew',
                lost_lanes.remake,
                self._database,
                self._conn,
                host,
                lost,
            )
        elif not host.is_kept:
            # Of one that is kept that was told already.
            yield RepairResult(name, _GONE, None)

    def _do(
        self,
        what: str,
        wrong: str,
        action: str,
        function: Callable[..., object],
        *args: object,
    ) -> RepairResult:
        return repair_remote(what, wrong, action, self._yes, function, *args)
