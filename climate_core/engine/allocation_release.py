# SPDX-License-Identifier: Apache-2.0
"""Release the allocations of reservations that an event has ended.

A unit is released when its reservation no longer holds it, and retained as long as the reservation
uses it: also after its end, until its servers are deleted and it is cleaned.
"""

import dataclasses
import datetime
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from oslo_log import log
from sqlalchemy import orm

from climate_core.calendar.calendar import Calendar
from climate_core.calendar.transaction import CalendarTransaction
from climate_core.db import calendar as db_calendar
from climate_core.db import leases
from climate_core.db.engine import signal
from climate_core.engine.plugin_calls import EXPECTED_ERRORS
from climate_core.lease import model, states
from climate_core.plugins.base import CalendarBacked, Lockable, ResourcePlugin

LOG = log.getLogger(__name__)

_R = states.ReservationStatus

#: How long after the next poll a unit is retained that is still used.
_RETAINED_AFTER_POLL = datetime.timedelta(seconds=60)


@dataclasses.dataclass(eq=False)
class AllocationReleaser:
    """Release, or retain, the units of the reservations of a lease.

    :param plugins: resource type -> plugin
    """

    calendar: Calendar
    plugins: Mapping[str, ResourcePlugin]

    def update(
        self,
        session: orm.Session,
        before: model.Lease,
        after: model.Lease,
        next_poll: datetime.datetime,
        now: datetime.datetime,
    ) -> None:
        """Release what reservations no longer hold; retain what they use until the next poll."""
        live_ids = {r.id for r in after.live}
        freed = [r for r in before.live if r.id not in live_ids]
        calendar = self.calendar.transaction(session)
        self._release(calendar, [r for r in freed if r.unit_kind is not None], now)
        self._give_up(calendar, before, after, now)
        if any(r.amounts for r in freed):
            signal(session, leases.RESOURCES_FREED)
        self._keep(calendar, after, next_poll)

    def _give_up(
        self,
        calendar: CalendarTransaction,
        before: model.Lease,
        after: model.Lease,
        now: datetime.datetime,
    ) -> None:
        """Release the allocations of a preempted lease; they are not part of its later ones."""
        if not before.is_being_preempted or after.status not in states.UNGRANTED:
            return
        queued = {r.id for r in after.live if r.status == _R.PENDING}
        preempted = [r for r in before.live if r.id in queued]
        self._release(calendar, preempted, now)
        db_calendar.mark_released(calendar.session, [r.id for r in preempted])
        signal(calendar.session, leases.RESOURCES_FREED)

    def end_superseded(self, lease: model.Lease) -> None:
        """Undo what was done after the end of reservations, after the claim of an event was lost.

        A start that is superseded by the end of its lease may open a host after the end has closed
        it, and a preempted server may be locked after the end has unlocked it. The lock of another
        lease, which has the resource by now, is left. If a manager dies before this,
        :mod:`climate_hosts.watch.repair` closes the one later, and
        :mod:`climate_core.repair.reconciliation` unlocks the other.
        """
        kept_keys = {r.key for r in lease.live if not _is_ending(lease, r)}
        for reservation in lease.reservations:
            plugin = self.plugins.get(reservation.resource_type)
            # A preempted lease has an ended reservation of it beside the queued one.
            if plugin is None or reservation.key in kept_keys:
                continue
            try:
                if reservation.unit_kind is not None:
                    plugin.end(lease, reservation)
                elif lease.preemptible and isinstance(plugin, Lockable):
                    plugin.unlock(reservation.resource_id, lease.id)
            except EXPECTED_ERRORS as exc:
                LOG.warning('%s is not ended again: %s', reservation.id, exc)
            except Exception:
                # An unexpected error of one plugin must not keep the others from their end.
                LOG.exception('%s is not ended again', reservation.id)

    def _release(
        self,
        calendar: CalendarTransaction,
        freed: Iterable[model.Reservation],
        now: datetime.datetime,
    ) -> None:
        """Release allocations, from when their units are cleaned."""
        by_time: dict[datetime.timedelta, dict[str, Collection[int]]] = defaultdict(dict)
        for reservation in freed:
            plugin = self.plugins.get(reservation.resource_type)
            cleaning: datetime.timedelta = datetime.timedelta(0)
            used: Collection[int] = ()
            if isinstance(plugin, CalendarBacked):
                cleaning, used = plugin.cleaning(reservation), plugin.used_units(reservation)
            by_time[cleaning][reservation.id] = used
        for cleaning, of_reservations in by_time.items():
            self.calendar.release(calendar, of_reservations, now, cleaning)

    def _keep(
        self, calendar: CalendarTransaction, lease: model.Lease, next_poll: datetime.datetime
    ) -> None:
        """Retain the units that ending reservations still use, until they are empty.

        A unit is retained until some time after the next poll, so that few polls write.
        """
        late: dict[datetime.datetime, dict[str, Collection[int]]] = defaultdict(dict)
        for reservation in lease.live:
            plugin = self.plugins.get(reservation.resource_type)
            if not isinstance(plugin, CalendarBacked):
                continue
            if not (reservation.allocations and _is_leaving(lease, reservation)):
                continue
            used, cleaning = plugin.used_units(reservation), plugin.cleaning(reservation)
            ends = (a.end for a in reservation.allocations if a.unit_id in used)
            if any(end <= next_poll + cleaning for end in ends):
                late[next_poll + cleaning + _RETAINED_AFTER_POLL][reservation.id] = used
        for until, of_reservations in late.items():
            self.calendar.extend(calendar, of_reservations, until)


def _is_ending(lease: model.Lease, reservation: model.Reservation) -> bool:
    ending = reservation.status == _R.DELETING
    return ending or lease.status in states.ENDING


def _is_leaving(lease: model.Lease, reservation: model.Reservation) -> bool:
    preempted = lease.is_being_preempted and reservation.status == _R.ACTIVE
    return preempted or _is_ending(lease, reservation)
