# SPDX-License-Identifier: Apache-2.0
"""Preempt leases: take their allocations or servers for a lease that is not preemptible.

Leases of hosts and capacity are found in the calendar. They lose their allocations in the
transaction that writes the other lease: it searches what they release, guarded by the generations
of the units. Leases that have not started release it immediately. Active leases have a notice
first, and the other lease starts after it. Leases of servers are found with the forecast, see
:mod:`.server_preemption`; the other lease waits until their servers are shelved.
"""

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Final

from oslo_config import cfg
from oslo_log import log
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.calendar.transaction import CalendarTransaction
from climate_core.db import due_events, forecast_reads, leases, store
from climate_core.db.engine import Database, signal
from climate_core.db.forecast_reads import Preemptible
from climate_core.lease import model, states
from climate_core.lease.events import preemption, schedule
from climate_core.lease.history import Cause
from climate_core.lease.request import RAISE_FIRST, ErrorCollector
from climate_core.operations.allocation_service import AllocationService
from climate_core.operations.draft import Draft
from climate_core.operations.server_preemption import ServerPreemption
from climate_core.plugins import capabilities

LOG = log.getLogger(__name__)

_CAUSE: Final = Cause('lease.preempt')
_HAS_STARTED: Final = (
    'A preemptible lease has just begun to use what would have been free. Try again.'
)
#: The reason of a lease that waits until preempted leases have released their servers.
PREEMPTS: Final = 'It preempts other leases: it waits until there is room.'
_NO_TIME: Final = datetime.timedelta()
_KINDS: Final = (states.LeaseKind.IMMEDIATE, states.LeaseKind.SCHEDULED)


@dataclasses.dataclass
class Preemption:
    """Find preemptible leases, and preempt them."""

    conf: cfg.ConfigOpts
    database: Database
    allocation_service: AllocationService
    servers: ServerPreemption

    def check(self, draft: Draft, errors: ErrorCollector = RAISE_FIRST) -> None:
        """Reject a preemptible lease of resources that cannot be preempted, or of a queued kind.

        :raises climate_core.exceptions.BadRequest: naming the field
        """
        lease, plugins = draft.lease, self.allocation_service.plugins
        if not lease.preemptible:
            return
        if lease.kind not in _KINDS:
            told = (
                'A preemptible lease must be of the kind immediate or scheduled, not '
                f'{lease.kind}.'
            )
            errors.add(exceptions.BadRequest(told, field='preemptible'))
            return
        held = [
            e
            for e in draft.items
            if not isinstance(plugins[e.reservation.resource_type], capabilities.Preemptible)
        ]
        mixed = len({each.unit_kind is None for each in lease.live}) > 1
        if held or mixed or not lease.reservations:
            field = (held[0].field if held else '') or 'preemptible'
            told = (
                f'{field}: a preemptible lease must have hosts or capacity, or servers, and '
                'nothing that cannot be given up.'
            )
            errors.add(exceptions.BadRequest(told, field=field))

    def find(self, draft: Draft) -> Draft | None:
        """Find the leases without whose allocations there is capacity for a draft.

        Leases that have not started come first: they interrupt nothing.

        :returns: the draft with them, which may start later; None if there is no sufficient
            capacity without all of them either
        """
        lease = draft.lease
        if draft.before is not None or lease.preemptible or lease.kind not in _KINDS:
            return None
        later = self._after_notice(draft)
        last = max(lease.end_date, later.lease.end_date)
        candidates = self.database.read(
            forecast_reads.find_preemptible, lease.start_date, last, draft.now
        )
        if not candidates:
            return None
        if later is not draft:
            pending = {key: each for key, each in candidates.items() if not each.runs}
            preempting = self._choose(draft, pending)
            if preempting is not None:
                return preempting
        return self._choose(later, candidates)

    def find_servers(self, draft: Draft) -> Draft | None:
        """Find the leases without which there will be capacity for the servers of a draft.

        :returns: the draft with them, which may wait until they are preempted; None if there is no
            sufficient capacity without all of them either
        :raises climate_core.exceptions.ServiceUnavailable: Nova or Placement does not answer
        """
        if draft.before is not None:
            return None
        lease, asked = draft.lease, draft.request
        # An immediate lease is granted now, and ends at its end date whatever Nova finds then.
        may_end_later = lease.kind != states.LeaseKind.IMMEDIATE
        if may_end_later and asked is not None and asked.lasts is not None:
            lease = dataclasses.replace(lease, duration=round(asked.lasts.total_seconds()))
        choice = self.servers.find(lease, draft.now)
        if choice is None:
            return None
        in_time = choice.start <= draft.lease.start_date
        return dataclasses.replace(
            draft,
            preempted=choice.leases,
            preempt_at=choice.time,
            wait_reason=None if in_time else PREEMPTS,
        )

    def preempt_servers(self, lease: model.Lease, is_tried: bool = False) -> bool:
        """Preempt leases of servers for a lease whose servers have no host.

        :param is_tried: see :meth:`.ServerPreemption.find`
        :returns: whether there will be capacity for it, by preemption or for another reason
        :raises climate_core.exceptions.ClimateError: try again later
        """
        now = self.servers.clock.now()
        choice = self.servers.find(lease, now, is_tried)
        if choice is None:
            return False
        if choice.leases:
            draft = Draft(lease, (), now, preempted=choice.leases, preempt_at=choice.time)
            self.database.write(self._preempt, draft)
        return True

    def _preempt(self, session: orm.Session, draft: Draft) -> None:
        self.preempt(self.allocation_service.calendar.transaction(session), draft)

    def preempt(self, calendar: CalendarTransaction, draft: Draft) -> None:
        """Preempt the leases of a draft: what its lease needs is free from its start on.

        :raises climate_core.exceptions.NotEnough: a preempted lease has just started
        """
        session = calendar.session
        earliest, time = draft.now + self._notice(), draft.preempt_at or draft.lease.start_date
        for lease_id in sorted(draft.preempted):
            lease = leases.find(session, lease_id, lock=True)
            if lease is None:
                raise exceptions.NotEnough(_HAS_STARTED)
            cleaned = max(
                (self.allocation_service.cleaning(each) for each in lease.live), default=_NO_TIME
            )
            change = preemption.preempt_lease(lease, time - cleaned, earliest, draft.now)
            if change is None:
                raise exceptions.NotEnough(_HAS_STARTED)
            store.save(session, lease, change, draft.now, _CAUSE)
            waits = change.lease.status == states.LeaseStatus.WAITING
            self.allocation_service.release(calendar, lease, draft.now if waits else time)
            LOG.info('Lease %s is preempted by lease %s', lease_id, draft.lease.id)
        if draft.preempted:
            signal(session, due_events.DUE)

    def _choose(self, draft: Draft, candidates: Mapping[str, Preemptible]) -> Draft | None:
        lease = draft.lease
        period = max(lease.start_date, draft.now), lease.end_date
        if period[0] >= period[1]:
            return None
        promises = {
            key: each.promises for key, each in candidates.items() if each.overlaps(*period)
        }
        chosen = self.allocation_service.find_preempted(draft, promises)
        return dataclasses.replace(draft, preempted=tuple(chosen)) if chosen else None

    def _after_notice(self, draft: Draft) -> Draft:
        """Return a draft that starts when active leases can have released their allocations."""
        lease, asked = draft.lease, draft.request
        cleaned = (
            plugin.cleaning(reservation)
            for plugin in self.allocation_service.plugins.values()
            if isinstance(plugin, capabilities.Preemptible)
            and isinstance(plugin, capabilities.CalendarBacked)
            for reservation in lease.reservations
        )
        start = draft.now + self._notice() + max(cleaned, default=_NO_TIME)
        if start <= lease.start_date:
            return draft
        lasts = asked.lasts if asked is not None else None
        end = lease.end_date if lasts is None else start + lasts
        return dataclasses.replace(
            draft, lease=schedule.shift_period(lease, start, end, draft.now)
        )

    def _notice(self) -> datetime.timedelta:
        return datetime.timedelta(seconds=self.conf.queue.preemption_notice)
