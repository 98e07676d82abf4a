# SPDX-License-Identifier: Apache-2.0
"""Compare the leases with the cloud now and then, and write down what differs.

It finds resources that were deleted while no manager listened, trusts that no lease has (a manager
died between making the trust and writing the lease), and resources that wait for a lease which is
not there; it verifies what services have reported of new resources; it deletes trusts that leases
shared when no lease needs them any more; and it undoes the locks that leases have left on their
resources. It marks servers that are deleted with a lease which their owner may not know. Several
managers doing it at once is harmless.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping

from oslo_config import cfg
from oslo_db import exception as db_exc
from oslo_log import log

from climate_core.cloud import errors
from climate_core.cloud.trusts import Trusts
from climate_core.db import store
from climate_core.db import trusts as db_trusts
from climate_core.db.engine import DATABASE_ERRORS, Database
from climate_core.plugins.base import ResourcePlugin
from climate_core.sync import locks, lost_resources, marks, orphans, reported, retired_trusts
from climate_core.threads import PeriodicWorker

LOG = log.getLogger(__name__)

#: Seconds for which a trust must be known to have no lease before it is deleted.
_TRUST_SECONDS = 3600.0
#: The first comparison is soon after the start: up to so many seconds.
_FIRST_SECONDS = 30.0

#: The errors that are logged in a sentence; any other is a bug and logged with its traceback.
_TROUBLE: tuple[type[Exception], ...] = (*errors.EXPECTED, store.Stale, *DATABASE_ERRORS)


class Reconciler(PeriodicWorker):
    """Compare, in a thread of its own.

    :param nudge: called when something was written that the engine should look at
    :param trust_refused: called for each trust that Keystone does not let the service delete
    """

    name = 'reconcile'

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        database: Database,
        plugins: Mapping[str, ResourcePlugin],
        trusts: Trusts,
        nudge: Callable[[], None] = lambda: None,
        trust_refused: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(conf.reconcile.interval, _FIRST_SECONDS)
        self._conf = conf
        self._database = database
        self._plugins = plugins
        self._trusts = trusts
        self._nudge = nudge
        self._trust_refused = trust_refused
        #: What the log has told already; nothing is decided by it.
        self._reported: set[str] = set()
        #: Type of resource -> the marks that this process has set, by the ids of servers.
        self._marked: dict[str, dict[str, str]] = {}

    def poll(self) -> float:
        self.compare()
        return self.next_poll()

    def compare(self) -> None:
        """Compare everything once; trouble with one part does not keep the others from it."""
        for plugin in self._plugins.values():
            if self.stopping:
                return
            self._try('missing resources', self._missing, plugin)
            self._try('wrong reports of services', self._verify_reported, plugin)
            self._try('resources without a lease', self._unheld, plugin)
            self._try('locks that leases have left', self._unlock, plugin)
            self._try('servers that leases end', self._mark, plugin)
        self._try('trusts that no lease needs', self._delete_retired)
        if self._conf.cloud.sweep_trusts:
            self._try('trusts without a lease', self._sweep_trusts)

    @staticmethod
    def _try(what: str, function: Callable[..., object], *args: object) -> None:
        try:
            function(*args)
        except _TROUBLE as exc:
            LOG.warning('Looking for %s failed, the next comparison tries again: %s', what, exc)

    def _missing(self, plugin: ResourcePlugin) -> None:
        by_lease: dict[str, dict[str, str]] = defaultdict(dict)
        for held, reason in orphans.reservations_without_resource(self._database, plugin):
            by_lease[held.lease_id][held.id] = reason
        for lease_id, told in by_lease.items():
            if lost_resources.mark_lost(self._database, lease_id, told):
                LOG.warning('Lease %s lost resources: %s', lease_id, told)
                self._nudge()

    def _verify_reported(self, plugin: ResourcePlugin) -> None:
        for told in reported.verify(self._database, plugin):
            LOG.error('A service reported a wrong resource or wrong amounts: %s', told)
            self._nudge()

    def _unheld(self, plugin: ResourcePlugin) -> None:
        found = set(orphans.resources(self._database, plugin))
        for resource_id in sorted(found - self._reported):
            LOG.warning('%s %s has no lease: %s', plugin.title, resource_id, plugin.orphaned)
        self._reported = found

    def _unlock(self, plugin: ResourcePlugin) -> None:
        for resource_id in locks.undo(self._database, plugin):
            LOG.warning('%s %s was still locked, which no lease needs', plugin.title, resource_id)

    def _mark(self, plugin: ResourcePlugin) -> None:
        before = self._marked.get(plugin.resource_type, {})
        self._marked[plugin.resource_type] = marks.update(self._database, plugin, before)

    def _delete_retired(self) -> None:
        for trust_id in retired_trusts.find(self._database):
            if not self.stopping:
                args = self._database, self._trusts, trust_id, self._trust_refused
                self._try('trusts to delete', retired_trusts.delete, *args)

    def _sweep_trusts(self) -> None:
        mine = set(self._trusts.list_own())
        try:
            old = self._database.write(db_trusts.note_stray, mine, _TRUST_SECONDS)
        except db_exc.DBDuplicateEntry:
            # Another manager does the same at this moment.
            return
        for trust_id in old:
            if not self.stopping:
                self._try('trusts to delete', self._delete_trust, trust_id)

    def _delete_trust(self, trust_id: str) -> None:
        self._trusts.delete(trust_id)
        LOG.warning('Deleted the trust %s, which no lease has', trust_id)
