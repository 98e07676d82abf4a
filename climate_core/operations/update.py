# SPDX-License-Identifier: Apache-2.0
"""Update a lease or one of its reservations: plan what the change needs, then apply it.

An update is applied in one transaction, which plans it by the lease that it has locked. Three
needs are met outside of a transaction, before anything is written: the external service approves
the change, the forecast of the common pool has capacity for resources that are not created yet,
and the units that an active lease returns are closed. The transaction stops before it writes if
one of them is open, and is repeated after it.
"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import orm

from climate_common import dates, words
from climate_core import exceptions, policies
from climate_core.calendar.model import Demand, RetainedAllocation
from climate_core.concurrency import check_deadline, deadline
from climate_core.conf.delivery import webhook_rules
from climate_core.conf.limits import TIME_LIMITS
from climate_core.context import RequestContext
from climate_core.db import leases, project_limits, store
from climate_core.db.engine import TransactionRejected
from climate_core.db.project_limits import Amounts
from climate_core.lease import changes, model, resources, states
from climate_core.lease.events import start
from climate_core.lease.history import user_cause
from climate_core.lease.model import Allocation
from climate_core.lease.request import RequestRules, prefix_field
from climate_core.lease.transitions import Change
from climate_core.operations.allocation import read_demands, remaining_period
from climate_core.operations.draft import check_owner
from climate_core.operations.pool_forecast import PoolForecast
from climate_core.operations.quota import (
    Quota,
    check_stored_bytes,
    count_added,
    has_time_limits,
    is_later,
    is_longer,
)
from climate_core.operations.remote import check_allowed, check_generation
from climate_core.operations.services import Services
from climate_core.operations.shrink import BUSY, ClosedUnits, closed_units
from climate_core.webhooks import DEFAULT_RULES

#: The fields of a request that make a lease longer or later.
_DATES: Final = frozenset({'start_date', 'end_date', 'duration'})


@dataclasses.dataclass(frozen=True, slots=True)
class UpdateRequest:
    """The changes of a lease, or of one of its reservations, that a user requests.

    :param generation: of the lease that the user has read; None: any
    :param reservation_id: the reservation that ``values`` change; None: they change the lease
    """

    context: RequestContext
    lease_id: str
    values: Mapping[str, Any]
    generation: int | None = None
    reservation_id: str | None = None

    @property
    def fields(self) -> dict[str, str]:
        """Return the places of reservations in the request by their ids."""
        items = enumerate(self.values.get('reservations') or ())
        return {str(item.get('id')): f'reservations[{place}]' for place, item in items}


@dataclasses.dataclass(frozen=True, slots=True)
class UpdatePlan:
    """An update of a lease as it is, and what it needs.

    :param uncreated: the reservations for which the common pool must have capacity at new dates
    :param reallocated: the requests of reservations whose allocations may change
    :param shrinking: the ids of the reservations of an active lease that return units -> their new
        number of units
    """

    before: model.Lease
    change: Change
    uncreated: Sequence[model.Reservation]
    reallocated: Sequence[Demand]
    shrinking: Mapping[str, int]


class LeaseUpdate:
    """The update of a lease by one request."""

    def __init__(self, services: Services, quota: Quota, request: UpdateRequest) -> None:
        self._services = services
        self._quota = quota
        self._request = request
        is_lease = request.reservation_id is None
        self._rule = policies.UPDATE_LEASE if is_lease else policies.UPDATE_RESERVATION
        self._action = 'lease.update' if is_lease else 'reservation.update'
        #: The generation that the lease must have; what was approved is valid for it only.
        self._generation = request.generation
        #: The project of the lease and its limits, if it may claim more than before.
        self._limited: tuple[str, Amounts] | None = None
        #: Whether reservations that cannot be extended keep their end.
        self._is_partial = bool(request.values.get('partial'))
        self._has_forecast = False
        #: The limits of the project of the lease, if Keystone limits the times of leases.
        self._times: Amounts | None = None
        self._closed: ClosedUnits | None = None
        #: What the last transaction has planned.
        self._plan: UpdatePlan | None = None

    def run(self) -> None:
        """Update the lease, see :meth:`.LeaseOperations.update_lease`."""
        self._approve()
        self._apply_plan()
        plan = self._plan
        if plan is not None and self._quota.commits(plan.before, plan.change.lease):
            after = self._services.database.read(leases.find, plan.before.id)
            if after is not None:
                self._quota.external.commit(plan.before, after)

    def _apply_plan(self) -> None:
        plan = self._write()
        if plan is not None and plan.uncreated:
            self._check_forecast(plan)
            plan = self._write()
        if plan is not None:
            with closed_units(self._services, plan.before, plan.shrinking) as self._closed:
                with deadline(None):
                    plan = self._write()
                if plan is not None:
                    raise exceptions.InvalidState(BUSY)

    def plan(self, lease: model.Lease, now: datetime) -> UpdatePlan:
        """Return the update of a lease and what it needs. Nothing is read or written."""
        if self._request.reservation_id is None:
            change = self._change_lease(lease, now)
        else:
            normalized = self._normalize(lease, self._request.reservation_id, self._request.values)
            change = resources.change_reservation(
                lease, self._request.reservation_id, normalized, now
            )
        check_stored_bytes(lease, change.lease)
        change = self._recount_amounts(lease, change, now)
        after = change.lease
        requests = self._read_requests(lease, after)
        is_moved = (
            after.kind == states.LeaseKind.SCHEDULED
            and after.status not in states.UNGRANTED
            and changes.moved_date(lease, after) is not None
        )
        return UpdatePlan(
            before=lease,
            change=change,
            uncreated=after.uncreated if is_moved else (),
            reallocated=requests,
            shrinking=find_shrinking(lease, requests) if lease.has_started(now) else {},
        )

    def apply(self, session: orm.Session) -> UpdatePlan | None:
        """Write the update.

        :returns: None: it is written. Else its plan, which needs more than the transaction
        """
        now = self._services.clock.now()
        if self._limited is not None:
            # First, so that the count includes what other requests have committed.
            project_limits.lock_project(session, *self._limited)
        lease = self._load(session, lock=True)
        check_generation(lease, self._generation)
        self._quota.check_changes(session, lease)
        closed: Mapping[str, RetainedAllocation] = {}
        if self._closed is not None:
            self._closed.check(lease)
            closed = self._closed.less
        plan = self._plan = self.plan(lease, now)
        if plan.uncreated and not self._has_forecast:
            return plan
        if self._limited is not None:
            project_id, most = self._limited
            added = count_added(plan.change.lease, lease)
            project_limits.check_limits(session, project_id, added, most)
        if plan.shrinking.keys() - closed.keys():
            return plan
        cause = user_cause(self._request.context, self._action)
        after = store.save(session, lease, plan.change, now, cause)
        if not plan.reallocated:
            return None
        new, refused = self._reallocate(session, plan, closed, now)
        changed: Collection[str] = ()
        if lease.has_started(now):
            changed = _find_other_units(lease, new) | closed.keys()
        if changed or refused:
            last = changes.add_early_ends(lease, after, refused, now)
            last = start.add_reallocations(last, changed, now)
            store.save(session, after, Change(last), now, cause)
        return None

    def _load(self, session: orm.Session, lock: bool = False) -> model.Lease:
        """Return the lease as it is now.

        :raises climate_core.exceptions.LeaseNotFound: it does not exist, or the policy does not
            allow the update
        """
        lease = leases.get(session, self._request.lease_id, lock=lock)
        check_allowed(self._request.context, self._rule, lease)
        return lease

    def _approve(self) -> None:
        """Check what takes too long for a transaction: limits, and with the external service.

        The roles of a delegated token are compared here, too: Keystone must not be called in the
        transaction.
        """
        request = self._request
        is_lease = request.reservation_id is None
        is_external = is_lease and self._quota.external.on_update
        may_add = not is_lease or bool(request.values.get('reservations'))
        limits = self._quota.project_limits
        is_timed = is_lease and not _DATES.isdisjoint(request.values) and self._may_limit_times()
        if not (is_external or is_timed) and not (
            may_add and (limits.is_on or request.context.is_delegated)
        ):
            return
        lease, now = self._services.database.read(self._load), self._services.clock.now()
        check_generation(lease, self._generation)
        # Those of Keystone are checked below: a change that does not need them must not fail if
        # Keystone does not answer.
        self._times = dict.fromkeys(TIME_LIMITS, project_limits.UNLIMITED) if is_timed else None
        after = self.plan(lease, now).change.lease
        if is_timed:
            self._times = None
            if is_longer(after, lease) or is_later(after, lease):
                most = limits.recent(lease.project_id)
                self._times = self._quota.check_recent_time(after, now, most, lease)
        if self._quota.asks_external(after, lease):
            most = self._quota.check_quota(after, now, lease)
            self._quota.check_external(after, lease)
            # The service has permitted this change of this lease.
            self._generation = lease.generation
        else:
            most = self._quota.check_limits(after, lease)
        if most is not None:
            self._limited = lease.project_id, most

    def _may_limit_times(self) -> bool:
        """Return whether Keystone limits the times of leases, or does not answer."""
        limits, project_id = self._quota.project_limits, self._request.context.project_id
        if not limits.is_on or not project_id:
            return limits.is_on
        try:
            # A project has such a limit only if all projects have it.
            return has_time_limits(limits.recent(project_id))
        except exceptions.ServiceUnavailable:
            return True

    def _check_forecast(self, plan: UpdatePlan) -> None:
        """Check that the common pool has capacity at the new dates, of this generation only."""
        services, before, after = self._services, plan.before, plan.change.lease
        forecast = PoolForecast(services.database, services.cloud, without=before.id)
        forecast.take(
            plan.uncreated,
            max(after.start_date, services.clock.now()),
            after.end_date,
            changes.moved_date(before, after) or 'end_date',
        )
        self._generation, self._has_forecast = before.generation, True

    def _write(self) -> UpdatePlan | None:
        try:
            return self._services.database.write(self.apply)
        except exceptions.NotEnough as exc:
            if self._plan is None or self._is_partial:
                raise
            raise _explain_partial(exc, self._plan.before, self._plan.change.lease) from None

    def _change_lease(self, lease: model.Lease, now: datetime) -> Change:
        """Return the change of a lease by the values of the request."""
        values, items = self._request.values, []
        for place, item in enumerate(values.get('reservations') or ()):
            check_deadline()
            with prefix_field(f'reservations[{place}]'):
                try:
                    normalized = self._normalize(lease, str(item.get('id')), item)
                except exceptions.ReservationNotFound as exc:
                    # The reservation is not in the path of the request, but in its body.
                    raise exceptions.BadRequest(exc.message, field='id') from exc
                items.append({'id': item['id'], **normalized})
        conf = self._services.conf
        rules = RequestRules(
            late_start_seconds=conf.manager.late_start_seconds,
            before_start=conf.manager.before_start_seconds,
            webhooks=webhook_rules(conf) if values.get('webhook') else DEFAULT_RULES,
        )
        values = {**values, 'reservations': items} if items else values
        change = changes.update_lease(lease, values, now, rules)
        self._quota.check_time(change.lease, now, lease, most=self._times)
        self._quota.check_events(change.lease, lease)
        return change

    def _normalize(
        self, lease: model.Lease, reservation_id: str, values: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the values of a reservation in the form that its plugin stores, without ``id``.

        :raises climate_core.exceptions.BadRequest: its plugin forbids the change
        :raises climate_core.exceptions.Forbidden: only the owner of the lease may change it
        :raises climate_core.exceptions.InvalidState: its plugin permits it before the start
        :raises climate_core.exceptions.ReservationNotFound: the lease does not have it
        """
        reservation = lease.get_reservation(reservation_id)
        plugin = self._services.plugins.get(reservation.resource_type)
        changeable = plugin.changeable if plugin is not None else ()
        for field in sorted(values.keys() - {'id', *changeable}):
            raise exceptions.BadRequest(
                f'{field} of this reservation cannot be changed; these can be: '
                f'{", ".join(changeable) or "none"}.',
                field=field,
            )
        given = {name: value for name, value in values.items() if name != 'id'}
        if plugin is None:
            return given
        normalized = plugin.normalize(given)
        is_before_start = lease.status in {states.LeaseStatus.PENDING, *states.UNGRANTED}
        changed = [
            field
            for field in sorted(normalized)
            if normalized[field] != reservation.params.get(field)
        ]
        for field in changed:
            check_owner(plugin, lease, self._request.context, field)
        for field in changed:
            if field in plugin.until_start and not is_before_start:
                raise exceptions.InvalidState(
                    f'{field}: can be changed only before the start of the lease. '
                    f'{plugin.until_start[field]}',
                    field=field,
                )
        return normalized

    def _recount_amounts(self, before: model.Lease, change: Change, now: datetime) -> Change:
        """Return a change with the amounts of its reservations by their new params.

        A reservation without amounts, as it is queued or was not created, still has none.
        """
        old = {reservation.id: reservation for reservation in before.reservations}
        counted = []
        for reservation in change.lease.live:
            plugin = self._services.plugins.get(reservation.resource_type)
            known = old.get(reservation.id, reservation)
            if plugin is None or not known.amounts or reservation.params == known.params:
                continue
            amounts = plugin.amounts(reservation.params)
            if amounts is not None:
                counted.append(dataclasses.replace(reservation, amounts=amounts, updated_at=now))
        return dataclasses.replace(change, lease=change.lease.with_reservations(*counted))

    def _read_requests(self, before: model.Lease, after: model.Lease) -> Sequence[Demand]:
        """Return the requests of the reservations whose allocations may change."""
        if after.status in states.ENDING | states.UNGRANTED:
            return []
        old = {reservation.id: reservation for reservation in before.live}
        date, moved = changes.moved_date(before, after), changes.resumed_ends(before, after)
        if date is not None:
            # A new date is for all but what ends before the lease.
            moved |= old.keys() - after.early_ends.keys()
        same = {r.id for r in after.live if r.id in old and r.params == old[r.id].params}
        changed = [r for r in after.live if r.id in old and (r.id in moved or r.id not in same)]
        requests = read_demands(self._services.plugins, changed, self._request.fields)
        # The date is the invalid field of what changes only with it.
        return [
            dataclasses.replace(request, field=date or 'end_date')
            if request.reservation_id in same
            else request
            for request in requests
        ]

    def _reallocate(
        self,
        session: orm.Session,
        plan: UpdatePlan,
        closed: Mapping[str, RetainedAllocation],
        now: datetime,
    ) -> tuple[Sequence[Allocation], Collection[str]]:
        """Change the allocations of the lease; with ``partial`` where they can be extended.

        Units in use are kept.

        :param closed: what the reservations whose units were closed retain
        :returns: the new allocations, and the ids of the reservations that are not extended
        :raises climate_core.exceptions.NotEnough: there is no sufficient capacity
        """
        before, after = plan.before, plan.change.lease
        calendar = self._services.calendar
        transaction = calendar.transaction(session)
        refused: set[str] = set()
        first: TransactionRejected | None = None
        while True:
            requests = [each for each in plan.reallocated if each.reservation_id not in refused]
            if not requests:
                return [], refused
            try:
                new = calendar.reallocate(
                    transaction,
                    requests,
                    *remaining_period(after, now),
                    before.has_started(now),
                    closed,
                )
            except TransactionRejected as exc:
                # The first rejection is about the whole lease.
                first = first or exc
                blamed = exc.about
                if not self._is_partial or blamed is None:
                    raise first from None
                if not _is_partly_extended(before, after, {*refused, blamed}):
                    raise first from None
                refused.add(blamed)
            else:
                return new, refused


def find_shrinking(before: model.Lease, requests: Iterable[Demand]) -> Mapping[str, int]:
    """Return the ids of the reservations that request fewer units -> how many they request."""
    has = {r.id: sum(each.pieces for each in r.allocations) for r in before.live}
    return {
        request.reservation_id: request.max_pieces
        for request in requests
        if request.max_pieces < has[request.reservation_id]
    }


def _find_other_units(before: model.Lease, new: Iterable[Allocation]) -> set[str]:
    """Return the ids of the reservations with allocations that the lease did not have."""
    had = {(r.id, each.unit_id, each.pieces) for r in before.live for each in r.allocations}
    return {
        each.reservation_id
        for each in new
        if (each.reservation_id, each.unit_id, each.pieces) not in had
    }


def _is_partly_extended(before: model.Lease, after: model.Lease, refused: Collection[str]) -> bool:
    """Return whether a change extends a lease, and at least one reservation is not rejected.

    :param refused: the ids of rejected reservations
    """
    leaving = {e.id for e in after.live if e.status == states.ReservationStatus.DELETING}
    later = before.end_date < after.end_date or changes.resumed_ends(before, after)
    rest = {each.id for each in after.live} - leaving - after.early_ends.keys()
    return bool(later and before.start_date == after.start_date and not rest <= {*refused})


def _explain_partial(
    error: exceptions.NotEnough, before: model.Lease, after: model.Lease
) -> exceptions.NotEnough:
    """Return the rejection of a later end with the result of ``partial``, if that would help.

    :param error: the rejection by the calendar, with all reservations without capacity
    """
    if not error.parts or not _is_partly_extended(before, after, error.parts):
        return error
    early = before.early_ends
    ends = {early.get(each, before.end_date) for each in error.parts}
    times = words.listed([dates.sentence(each) for each in sorted(ends)])
    return exceptions.NotEnough(
        f'{error.message} With partial (--partial on the command line) all other '
        f'reservations are extended until {dates.sentence(after.end_date)}, and '
        f'{"this part ends" if len(error.parts) == 1 else "these parts end"} at {times}, as '
        'before.',
        error.field,
        error.available_from,
    )
