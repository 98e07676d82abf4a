# SPDX-License-Identifier: Apache-2.0
"""Choose shared hosts that are evacuated for a lease: the kind ``best_effort``.

The hosts are taken from ordinary servers in the transaction that writes the lease. From then
on :mod:`climate_hosts.operations.host_evacuation` evacuates them.
"""

import dataclasses
import datetime
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from oslo_config import cfg
from oslo_log import log
from sqlalchemy import orm
from stevedore import driver

from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.db.engine import Database
from climate_core.lease import model
from climate_core.lease.events import queue
from climate_core.operations.allocation_service import AllocationService
from climate_core.operations.draft import Draft
from climate_core.operations.services import UserConnector
from climate_core.plugins.common_pool import server_placement
from climate_core.plugins.common_pool.server_placement import CandidateHost, CannotDrainHosts
from climate_core.plugins.loading import PluginError
from climate_hosts.db import shared_hosts as db_shared
from climate_hosts.operations import evacuation_inventory, shared_hosts

if TYPE_CHECKING:
    from climate_core.cloud import connections

LOG = log.getLogger(__name__)

NAMESPACE: Final = 'climate.migration.strategies'
_STRATEGIES: Final[Mapping[str, server_placement.Strategy]] = {
    function.__name__: function
    for function in (
        server_placement.fewest_servers,
        server_placement.least_memory,
        server_placement.oldest_first,
    )
}
#: Candidates are read in batches of this size, or of twice the requested number; two calls each.
_BATCH_SIZE: Final = 10
#: After this number of candidates the request is rejected.
_MAX_CANDIDATES: Final = 100
#: The key of the progress of the reservation: until when its hosts must be empty.
UNTIL: Final = 'until'


def load_strategy(name: str) -> server_placement.Strategy:
    """Return the strategy of ``[queue] migration_strategy``.

    :raises climate_core.plugins.loading.PluginError: there is none of this name
    """
    if name in _STRATEGIES:
        return _STRATEGIES[name]
    try:
        found: server_placement.Strategy = driver.DriverManager(NAMESPACE, name).driver
    except RuntimeError as exc:
        raise PluginError(
            f'[queue] migration_strategy: {name} is not installed in {NAMESPACE}; there are '
            f'{", ".join(_STRATEGIES)}.'
        ) from exc
    return found


@dataclasses.dataclass(eq=False)
class EvacuationPlanner:
    """Choose hosts that can be evacuated for a lease.

    :param cloud: None: there are no hosts
    """

    conf: cfg.ConfigOpts
    database: Database
    allocation_service: AllocationService
    cloud: UserConnector | None = None

    def __post_init__(self) -> None:
        self._strategy = load_strategy(self.conf.queue.migration_strategy)

    def choose_hosts(self, draft: Draft, refused: exceptions.NotEnough) -> tuple[int, ...]:
        """Return the ids of the hosts that are to be evacuated for a new lease.

        :param refused: the rejection without an evacuation
        :raises climate_core.exceptions.NotEnough: too few can be evacuated
        :raises climate_core.exceptions.BadRequest: the lease starts too late
        """
        lease = draft.lease
        most = self.conf.queue.best_effort_timeout
        if lease.start_date > draft.now + datetime.timedelta(seconds=most):
            raise exceptions.BadRequest(
                f'Hosts are emptied at once, so a lease of the kind best_effort must start within '
                f'{most} seconds.',
                field='start_date',
            )
        if draft.request is not None and draft.request.lasts is not None:
            seconds = round(draft.request.lasts.total_seconds())
            lease = dataclasses.replace(lease, duration=seconds)
        try:
            return tuple(candidate.id for candidate in self.choose(lease, draft.now))
        except CannotDrainHosts as exc:
            message = f'{exc} {refused.message}'
            raise exceptions.NotEnough(message, refused.field, refused.available_from) from exc
        except errors.EXPECTED as exc:
            raise exceptions.ServiceUnavailable(str(exc)) from exc

    def take_hosts(self, session: orm.Session, draft: Draft, lease: model.Lease) -> model.Lease:
        """Take the hosts that are to be evacuated for the new lease of a draft; return the lease.

        :raises climate_core.exceptions.NotEnough: another lease has taken one of them
        """
        asked, most = draft.request, self.conf.queue.best_effort_timeout
        assert asked is not None, 'hosts are emptied for a whole lease'  # nosec B101 # for mypy: it holds already
        for host_id in draft.hosts_to_evacuate:
            shared_hosts.take_for_lease(session, host_id, lease.id)
        until = draft.now + datetime.timedelta(seconds=asked.best_effort_timeout or most)
        progress = {UNTIL: until.isoformat()}
        return queue.drain_hosts_for(lease, progress, asked.lasts, draft.wait_reason, draft.now)

    def connect(self) -> 'connections.Connection':
        """Return the connection with the rights of the service."""
        assert self.cloud is not None, 'there are hosts'  # nosec B101 # for mypy: it holds already
        return self.cloud.service()

    def choose(
        self, lease: model.Lease, now: datetime.datetime, without: Collection[int] = ()
    ) -> list[CandidateHost]:
        """Choose hosts to evacuate, beside those that are being evacuated for the lease.

        :raises climate_core.plugins.common_pool.server_placement.CannotDrainHosts: too few
        """
        missing, would_do = self.allocation_service.count_shortage(lease, now)
        present = [
            host
            for host in self.database.read(db_shared.list_available)
            if host.id in would_do and host.id not in without
        ]
        emptied = self.database.read(db_shared.list_evacuating)
        count = max(0, missing - sum(host.emptied_for == lease.id for host in emptied))
        if count > len(present) or not count:
            return server_placement.choose_hosts(
                [CandidateHost(id=e.id, name='') for e in present], count, ()
            )
        conn = self.connect()
        hypervisors = evacuation_inventory.Hypervisors(conn)
        free = server_placement.FreeCapacity(hypervisors.targets())
        # The servers of hosts that are being evacuated are placed first.
        moving = list(evacuation_inventory.read_candidates(conn, emptied))
        up, looked = hypervisors.emptiest_first(present), list[CandidateHost]()
        size, spares = max(_BATCH_SIZE, 2 * count), self.conf.queue.spare_servers
        failure = CannotDrainHosts()
        for first in range(0, max(1, min(len(up), max(_MAX_CANDIDATES, size))), size):
            looked += evacuation_inventory.read_candidates(conn, up[first : first + size])
            try:
                return server_placement.choose_hosts(
                    looked, count, free, self._strategy, spares, moving
                )
            except CannotDrainHosts as exc:
                failure = exc
        if len(up) <= len(looked):
            raise failure
        raise CannotDrainHosts(f'{failure} Those with more servers were not looked at.')
