# SPDX-License-Identifier: Apache-2.0
"""Grant leases that wait, when there is enough for them.

Several managers may do it at once: each lease is granted in a transaction of its own, in which the
calendar is the judge.
"""

import dataclasses
import datetime
from collections.abc import Callable, Mapping

from oslo_config import cfg
from oslo_log import log
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import events, leases, store
from climate_core.db import limits as db_limits
from climate_core.db.clock import Clock
from climate_core.db.engine import Database
from climate_core.lease import changes, limits, model, states
from climate_core.lease.history import Cause
from climate_core.operations.draft import Draft
from climate_core.operations.promises import Promises
from climate_core.operations.quota import Quota
from climate_core.plugins.base import ResourcePlugin, Wait

LOG = log.getLogger(__name__)

_CAUSE = Cause('lease.granted')


@dataclasses.dataclass(eq=False)
class Queue:
    """Look through the leases that wait, the oldest first.

    :param nudge: called when a lease was granted, whose start may be due
    :param look_again: called when leases wait, which :meth:`look` knows more of
    """

    conf: cfg.ConfigOpts
    database: Database
    clock: Clock
    plugins: Mapping[str, ResourcePlugin]
    promises: Promises
    quota: Quota
    nudge: Callable[[], None] = lambda: None
    look_again: Callable[[], None] = lambda: None

    def add(self, draft: Draft, lease: model.Lease) -> model.Lease:
        """Return the new lease of a draft as one that waits."""
        asked, queue = draft.asked, self.conf.queue
        assert asked is not None, 'a lease that waits was asked for as a whole'
        retries = min(asked.max_retries or queue.max_retries, queue.max_retries)
        interval = queue.retry_interval
        return changes.wait.wait(lease, retries, asked.lasts, draft.waits, draft.now, interval)

    def retry(self, lease: model.Lease) -> Wait | None:
        """Try a lease that waits, after those before it.

        :returns: until when it waits, and why; None: it waits no more
        """
        why, _ = self._grant_all()
        self.look_again()
        now, interval = self.clock.now(), self.conf.queue.retry_interval
        # All were looked at: those that are to be tried soon need not be looked at once more.
        soon = now + datetime.timedelta(seconds=interval / 2)
        until = now + datetime.timedelta(seconds=interval)
        self.database.write(events.postpone_retries, lease.id, soon, until)
        present = self.database.read(leases.find, lease.id, parts=())
        if present is None or present.status != states.LeaseStatus.WAITING:
            return None
        return Wait(interval, why.get(lease.id) or present.status_reason)

    def look(self) -> float | None:
        """Grant what there is enough for; return in how many seconds there is more, if known."""
        _, seconds = self._grant_all()
        return seconds

    def _grant_all(self) -> tuple[dict[str, str], float | None]:
        """Grant what there is enough for.

        :returns: why leases are not granted for which the calendar has enough, by their ids, and
            in how many seconds the next one has enough
        """
        waiting = {each.id: each for each in self.database.read(leases.waiting)}
        if not waiting:
            return {}, None
        now = self.clock.now()
        refused: dict[str, str] = {}
        granted = False
        fitting, seconds = self.promises.fitting(waiting.values(), now)
        for lease_id in fitting:
            try:
                granted |= self._grant(waiting[lease_id])
            except exceptions.ClimateError as exc:
                refused[lease_id] = exc.message
        if granted:
            self.nudge()
        return refused, seconds

    def _grant(self, lease: model.Lease) -> bool:
        """Grant one lease; tell whether it waited until now."""
        amounts = self._amounts(lease)
        holding = lease.with_reservations(
            *(dataclasses.replace(each, amounts=amounts[each.id]) for each in lease.live)
        )
        most = self.quota.check_limits(holding, lease)
        return self.database.write(self._write, lease, amounts, most)

    def _write(
        self,
        session: orm.Session,
        seen: model.Lease,
        amounts: Mapping[str, Mapping[str, int]],
        most: limits.Amounts | None,
    ) -> bool:
        now = self.clock.now()
        db_limits.lock(session, seen.project_id, most)
        lease = leases.find(session, seen.id, lock=True)
        if lease is None or lease.status != states.LeaseStatus.WAITING:
            return False
        if lease.generation != seen.generation:
            # Its user changed it meanwhile, and so it is tried soon.
            return False
        change = changes.wait.grant(lease, amounts, now, self.conf.manager.before_start_seconds)
        adding = limits.amounts(change.lease.live)
        db_limits.check(session, lease.project_id, adding, most)
        after = store.save(session, lease, change, now, _CAUSE)
        self.promises.promise(session, after, after.live, {}, now)
        LOG.info('Lease %s waits no more', lease.id)
        return True

    def _amounts(self, lease: model.Lease) -> dict[str, Mapping[str, int]]:
        return {
            each.id: self.plugins[each.resource_type].amounts(each.params) or {}
            for each in lease.live
            if each.resource_type in self.plugins
        }
