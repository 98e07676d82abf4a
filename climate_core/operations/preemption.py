# SPDX-License-Identifier: Apache-2.0
"""Preempt leases: take their allocations or servers for a lease that is not preemptible.

Leases of hosts and capacity are found in the calendar. They lose their allocations in the
transaction that writes the other lease: it searches what they release, guarded by the generations
of the units. Leases that have not started release it immediately. Active leases have a notice
first, and the other lease starts after it. Leases of servers are found with the forecast, see
:mod:`climate_core.operations.server_preemption`; the other lease is queued until their servers are
shelved.
"""

import dataclasses
import datetime
from collections.abc import Collection, Mapping
from typing import Any, Final

from oslo_log import log
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.calendar.transaction import CalendarTransaction
from climate_core.db import events, forecast_reads, leases, store
from climate_core.db.engine import signal
from climate_core.db.forecast_reads import PreemptibleLease
from climate_core.lease import model, states
from climate_core.lease.events import preemption, schedule
from climate_core.lease.history import Cause
from climate_core.lease.request import RAISE_FIRST, ErrorCollector
from climate_core.operations import allocation, server_preemption
from climate_core.operations.draft import Draft, PreemptionChoice
from climate_core.operations.services import Services
from climate_core.plugins import base

LOG = log.getLogger(__name__)

_CAUSE: Final = Cause('lease.preempt')
_HAS_STARTED: Final = 'A preemptible lease has just started and uses the capacity. Try again.'
_NO_TIME: Final = datetime.timedelta()
_PREEMPTING_KINDS: Final = (states.LeaseKind.IMMEDIATE, states.LeaseKind.SCHEDULED)


class Preemption:
    """Find preemptible leases, and preempt them."""

    def __init__(self, services: Services) -> None:
        self.services = services

    def check(self, draft: Draft, errors: ErrorCollector = RAISE_FIRST) -> None:
        """Reject a preemptible lease of resources that cannot be preempted, or of a queued kind.

        :raises climate_core.exceptions.BadRequest: naming the field
        """
        lease, plugins = draft.lease, self.services.plugins
        if lease.kind not in _PREEMPTING_KINDS:
            message = (
                'A preemptible lease must be of the kind immediate or scheduled, not '
                f'{lease.kind}.'
            )
            errors.add(exceptions.BadRequest(message, field='preemptible'))
            return
        held = [
            e
            for e in draft.items
            if not isinstance(plugins[e.reservation.resource_type], base.Preemptible)
        ]
        mixed = len({each.unit_kind is None for each in lease.live}) > 1
        if held or mixed or not lease.reservations:
            field = (held[0].field if held else '') or 'preemptible'
            message = (
                f'{field}: a preemptible lease must have hosts or capacity, or servers, and '
                'nothing that cannot be preempted.'
            )
            errors.add(exceptions.BadRequest(message, field=field))

    def find(self, draft: Draft) -> PreemptionChoice | None:
        """Find the leases without whose allocations there is capacity for a draft.

        Leases that have not started come first: they interrupt nothing.

        :returns: None if there is no sufficient capacity without all of them either
        """
        lease = draft.lease
        if draft.before is not None or lease.preemptible or lease.kind not in _PREEMPTING_KINDS:
            return None
        later = self._shift_after_notice(draft)
        last = max(lease.end_date, later.end_date)
        candidates = self.services.database.read(
            forecast_reads.find_preemptible, lease.start_date, last, draft.now
        )
        if not candidates:
            return None
        if later is not lease:
            pending = {key: each for key, each in candidates.items() if not each.runs}
            choice = self._choose(draft, lease, pending)
            if choice is not None:
                return choice
        return self._choose(draft, later, candidates)

    def find_servers(self, draft: Draft) -> PreemptionChoice | None:
        """Find the leases without which there will be capacity for the servers of a draft.

        :returns: None if there is no sufficient capacity without all of them either
        :raises climate_core.exceptions.ServiceUnavailable: Nova or Placement does not answer
        """
        if draft.before is not None:
            return None
        lease, request = draft.lease, draft.request
        # An immediate lease is granted now, and ends at its end date whatever Nova finds then.
        may_end_later = lease.kind != states.LeaseKind.IMMEDIATE
        if may_end_later and request is not None and request.lasts is not None:
            lease = dataclasses.replace(lease, duration=round(request.lasts.total_seconds()))
        choice = server_preemption.find_preempted(self.services, lease, draft.now)
        return None if choice is None else choice._replace(lease=draft.lease)

    def preempt_servers(self, lease: model.Lease, is_tried: bool = False) -> bool:
        """Preempt leases of servers for a lease whose servers have no host.

        :param is_tried: see :func:`.server_preemption.find_preempted`
        :returns: whether there will be capacity for it, by preemption or for another reason
        :raises climate_core.exceptions.ClimateError: try again later
        """
        now = self.services.clock.now()
        choice = server_preemption.find_preempted(self.services, lease, now, is_tried)
        if choice is None:
            return False
        if choice.leases:
            self.services.database.write(self._preempt, lease.id, choice.leases, choice.time, now)
        return True

    def _preempt(self, session: orm.Session, *args: Any) -> None:
        """Preempt leases in a transaction."""
        self.preempt(self.services.calendar.transaction(session), *args)

    def preempt(
        self,
        calendar: CalendarTransaction,
        preempting_id: str,
        lease_ids: Collection[str],
        time: datetime.datetime,
        now: datetime.datetime,
    ) -> None:
        """Preempt leases: their resources are free from a time on.

        :param preempting_id: the id of the lease that preempts them
        :raises climate_core.exceptions.NotEnough: a preempted lease has just started
        """
        session, earliest = calendar.session, now + self._notice()
        for lease_id in sorted(lease_ids):
            lease = leases.find(session, lease_id, lock=True)
            if lease is None:
                raise exceptions.NotEnough(_HAS_STARTED)
            cleaning = {each.id: self._cleaning(each) for each in lease.live if each.unit_kind}
            cleaned = max(cleaning.values(), default=_NO_TIME)
            change = preemption.preempt_lease(lease, time - cleaned, earliest, now)
            if change is None:
                raise exceptions.NotEnough(_HAS_STARTED)
            store.save(session, lease, change, now, _CAUSE)
            freed = now if change.lease.status == states.LeaseStatus.WAITING else time
            for reservation_id, length in cleaning.items():
                # Other leases can have the units when they are clean.
                self.services.calendar.release(
                    calendar, {reservation_id: ()}, freed - length, length
                )
            LOG.info('Lease %s is preempted by lease %s', lease_id, preempting_id)
        if lease_ids:
            signal(session, events.DUE)

    def _choose(
        self, draft: Draft, lease: model.Lease, candidates: Mapping[str, PreemptibleLease]
    ) -> PreemptionChoice | None:
        period = max(lease.start_date, draft.now), lease.end_date
        if period[0] >= period[1]:
            return None
        allocations = {
            key: each.allocations for key, each in candidates.items() if each.overlaps(*period)
        }
        demands = allocation.read_demands(
            self.services.plugins, (item.reservation for item in draft.items)
        )
        remaining = allocation.remaining_period(lease, draft.now)
        chosen = self.services.calendar.find_preempted(demands, *remaining, allocations)
        return PreemptionChoice(lease, tuple(chosen)) if chosen else None

    def _shift_after_notice(self, draft: Draft) -> model.Lease:
        """Return the lease; it starts when active leases can have released their allocations."""
        lease, request = draft.lease, draft.request
        cleaned = (
            plugin.cleaning(reservation)
            for plugin in self.services.plugins.values()
            if isinstance(plugin, base.Preemptible) and isinstance(plugin, base.CalendarBacked)
            for reservation in lease.reservations
        )
        start = draft.now + self._notice() + max(cleaned, default=_NO_TIME)
        if start <= lease.start_date:
            return lease
        lasts = request.lasts if request is not None else None
        end = lease.end_date if lasts is None else start + lasts
        return schedule.shift_period(lease, start, end, draft.now)

    def _cleaning(self, reservation: model.Reservation) -> datetime.timedelta:
        """Return how long the units of a reservation stay free after its end."""
        plugin = self.services.plugins[reservation.resource_type]
        return (
            plugin.cleaning(reservation) if isinstance(plugin, base.CalendarBacked) else _NO_TIME
        )

    def _notice(self) -> datetime.timedelta:
        return datetime.timedelta(seconds=self.services.conf.queue.preemption_notice)
