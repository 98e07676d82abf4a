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
from climate_core.db import calendar as db_calendar
from climate_core.db import reservations
from climate_core.db.engine import signal
from climate_core.engine import attempts
from climate_core.lease import model, states
from climate_core.plugins.base import ResourcePlugin

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
        held = {each.id for each in after.live}
        freed = [each for each in before.live if each.id not in held]
        self._release(session, [each for each in freed if each.unit_kind is not None], now)
        self._give_up(session, before, after, now)
        if any(each.amounts for each in freed):
            signal(session, reservations.FREED)
        self._keep(session, after, next_poll)

    def _give_up(
        self,
        session: orm.Session,
        before: model.Lease,
        after: model.Lease,
        now: datetime.datetime,
    ) -> None:
        """Release the allocations of a preempted lease; they are not part of its later ones."""
        if not before.is_being_preempted or after.status not in states.UNGRANTED:
            return
        waiting = {each.id for each in after.live if each.status == _R.PENDING}
        given_up = [each for each in before.live if each.id in waiting]
        self._release(session, given_up, now)
        db_calendar.mark_released(session, [each.id for each in given_up])
        signal(session, reservations.FREED)

    def end_superseded(self, lease: model.Lease) -> None:
        """Undo what was done after the end of reservations, after the claim of an event was lost.

        A start that is superseded by the end of its lease may open a host after the end has closed
        it, and a preempted server may be locked after the end has unlocked it. The lock of another
        lease, which has the resource by now, is left. If a manager dies before this,
        :mod:`climate_hosts.sync.lanes` closes the one later, and
        :mod:`climate_core.repair.reconciliation` unlocks the other.
        """
        kept = {each.key for each in lease.live if not _is_ending(lease, each)}
        for each in lease.reservations:
            plugin = self.plugins.get(each.resource_type)
            # A preempted lease has an ended reservation of it beside the queued one.
            if plugin is None or each.key in kept:
                continue
            try:
                if each.unit_kind is not None:
                    plugin.end(lease, each)
                elif lease.preemptible:
                    plugin.unlock(each.resource_id, lease.id)
            except attempts.EXPECTED_ERRORS as exc:
                LOG.warning('%s is not ended again: %s', each.id, exc)
            except Exception:
                # An unexpected error of one plugin must not keep the others from their end.
                LOG.exception('%s is not ended again', each.id)

    def _release(
        self, session: orm.Session, freed: Iterable[model.Reservation], now: datetime.datetime
    ) -> None:
        """Release allocations, from when their units are cleaned."""
        by_time: dict[datetime.timedelta, dict[str, Collection[int]]] = defaultdict(dict)
        for each in freed:
            plugin = self.plugins.get(each.resource_type)
            cleaning = plugin.cleaning(each) if plugin else datetime.timedelta(0)
            by_time[cleaning][each.id] = plugin.used_units(each) if plugin else ()
        for cleaning, of_reservations in by_time.items():
            self.calendar.release(session, of_reservations, now, cleaning)

    def _keep(
        self, session: orm.Session, lease: model.Lease, next_poll: datetime.datetime
    ) -> None:
        """Retain the units that ending reservations still use, until they are empty.

        A unit is retained until some time after the next poll, so that few polls write.
        """
        late: dict[datetime.datetime, dict[str, Collection[int]]] = defaultdict(dict)
        for each in lease.live:
            plugin = self.plugins.get(each.resource_type)
            if plugin is None or not each.allocations or not _is_leaving(lease, each):
                continue
            used, cleaning = plugin.used_units(each), plugin.cleaning(each)
            ends = (one.end for one in each.allocations if one.unit_id in used)
            if any(end <= next_poll + cleaning for end in ends):
                late[next_poll + cleaning + _RETAINED_AFTER_POLL][each.id] = used
        for until, of_reservations in late.items():
            self.calendar.extend(session, of_reservations, until)


def _is_ending(lease: model.Lease, reservation: model.Reservation) -> bool:
    ending = reservation.status == _R.DELETING
    return ending or lease.status in states.ENDING


def _is_leaving(lease: model.Lease, reservation: model.Reservation) -> bool:
    preempted = lease.is_being_preempted and reservation.status == _R.ACTIVE
    return preempted or _is_ending(lease, reservation)
