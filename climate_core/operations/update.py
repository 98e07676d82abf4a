# SPDX-License-Identifier: Apache-2.0
"""Change a lease or a reservation: check the request, then write it in one transaction.

Some changes need more than a transaction. Other dates of resources that are not created yet need
the forecast of the common pool. A smaller reservation of an active lease is closed first. The
transaction detects both before it writes anything.
"""

import dataclasses
import datetime
import functools
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import orm

from climate_core import exceptions, policies
from climate_core.concurrency import check_deadline, deadline
from climate_core.context import RequestContext
from climate_core.db import leases, store
from climate_core.db import usage as db_limits
from climate_core.lease import model, states
from climate_core.lease.changes import reservations, update
from climate_core.lease.events import reallocation
from climate_core.lease.history import LIMITED, Cause, user_cause
from climate_core.lease.limits import Amounts
from climate_core.lease.request import prefix_field
from climate_core.lease.transitions import Change
from climate_core.operations import pool_forecast
from climate_core.operations.allocation_service import AllocationService
from climate_core.operations.draft import check_owner, check_stored_bytes
from climate_core.operations.draft_builder import check_allowed, check_generation, webhook_rules
from climate_core.operations.quota import Quota, count_added
from climate_core.operations.services import Services
from climate_core.operations.shrink import BUSY, ClosedUnits, LeaseShrinker
from climate_core.plugins.base import ResourcePlugin


@dataclasses.dataclass(frozen=True, slots=True)
class RequestedChange:
    """A change of a lease that a user requests.

    :param rule: the policy that must allow the change on the lease
    :param change: returns the change of the lease, at a time
    :param limited: its project and the limits of that, if it may hold more than before
    :param fields: reservation id -> its place in the request
    :param partial: whether reservations that cannot be extended keep their end
    """

    context: RequestContext
    rule: str
    lease_id: str
    generation: int | None
    change: Callable[[model.Lease, datetime.datetime], Change]
    limited: tuple[str, Amounts] | None = None
    fields: Mapping[str, str] = dataclasses.field(default_factory=dict)
    partial: bool = False

    def load(self, session: orm.Session, lock: bool = False) -> model.Lease:
        """Return the lease as it is now.

        :raises climate_core.exceptions.LeaseNotFound: there is none, or the policy did not allow
            this on it
        """
        lease = leases.get(session, self.lease_id, lock=lock)
        check_allowed(self.context, self.rule, lease)
        return lease


@dataclasses.dataclass(frozen=True, slots=True)
class _Unwritten:
    """A change that is not written yet: it needs more than the transaction.

    :param needs_forecast: whether it needs the forecast; else something must be closed first
    """

    before: model.Lease
    after: model.Lease
    needs_forecast: bool


class LeaseUpdater:
    """Check and write the changes of leases."""

    def __init__(
        self,
        services: Services,
        quota: Quota,
        allocation_service: AllocationService,
        reduction: LeaseShrinker,
    ) -> None:
        self._conf = services.conf
        self._database = services.database
        self._clock = services.clock
        self._plugins = services.plugins
        self._external = services.external
        self.cloud = services.cloud
        self._quota = quota
        self._allocation_service = allocation_service
        self._reduction = reduction

    def update_lease(
        self,
        context: RequestContext,
        lease_id: str,
        values: Mapping[str, Any],
        generation: int | None,
    ) -> None:
        """Change a lease, see :meth:`.LeaseOperations.update_lease`."""
        rules = update.UpdateRules(
            late=self._conf.manager.late_start_seconds,
            before_start=self._conf.manager.before_start_seconds,
            webhooks=webhook_rules(self._conf),
        )
        places = enumerate(values.get('reservations') or ())
        requested = RequestedChange(
            context,
            policies.UPDATE_LEASE,
            lease_id,
            generation,
            functools.partial(self._change_lease, context, values, rules),
            fields={str(item.get('id')): f'reservations[{place}]' for place, item in places},
            partial=bool(values.get('partial')),
        )
        requested = self._check_external(requested)
        if values.get('reservations'):
            requested = self._check_limits(requested)
        self.write('lease.update', requested)

    def update_reservation(
        self,
        context: RequestContext,
        lease_id: str,
        reservation_id: str,
        values: Mapping[str, Any],
        generation: int | None,
    ) -> None:
        """Change a reservation, see :meth:`.LeaseOperations.update_reservation`."""

        def change(lease: model.Lease, now: datetime.datetime) -> Change:
            normalized = normalize_values(self._plugins, context, lease, reservation_id, values)
            changed = reservations.change_reservation(lease, reservation_id, normalized, now)
            check_stored_bytes(lease, changed.lease)
            return recount_amounts(self._plugins, lease, changed, now)

        rule = policies.UPDATE_RESERVATION
        requested = RequestedChange(context, rule, lease_id, generation, change)
        self.write('reservation.update', self._check_limits(requested))

    def write(self, action: str, requested: RequestedChange) -> None:
        """Write a change, after the forecast or the closing of units that it needs."""
        cause = user_cause(requested.context, action)
        unwritten = self._write(cause, requested)
        if unwritten is None:
            return
        if unwritten.needs_forecast:
            before = unwritten.before
            pool_forecast.check_moved(
                self._database, self.cloud, before, unwritten.after, self._clock.now()
            )
            # The forecast is valid for this generation of the lease only.
            checked = dataclasses.replace(requested, generation=before.generation)
            unwritten = self._write(cause, checked, is_forecast=True)
            if unwritten is None:
                return
        closing = self._reduction.closing(
            requested.lease_id, requested.generation, requested.change
        )
        with closing as closed, deadline(None):
            if self._write(cause, requested, closed) is not None:
                raise exceptions.InvalidState(BUSY)

    def _write(
        self,
        cause: Cause,
        requested: RequestedChange,
        closed: ClosedUnits | None = None,
        is_forecast: bool = False,
    ) -> _Unwritten | None:
        """Write a change in one transaction, or nothing.

        :param closed: the units that an active lease gives back
        :param is_forecast: whether the forecast has the capacity for its new dates
        :returns: the change if it needs more than that; None: it is written
        """
        now = self._clock.now()
        limited, fields, partial = requested.limited, requested.fields, requested.partial
        less = {} if closed is None else closed.less

        def attempt(session: orm.Session) -> _Unwritten | None:
            if limited is not None:
                # First, so that the count includes what other requests have committed.
                db_limits.lock_project(session, *limited)
            lease = requested.load(session, lock=True)
            check_generation(lease, requested.generation)
            if cause.action in LIMITED:
                self._quota.check_changes(session, lease)
            if closed is not None:
                closed.check(lease)
            changed = requested.change(lease, now)
            if not is_forecast and pool_forecast.needs_forecast(lease, changed.lease):
                return _Unwritten(lease, changed.lease, needs_forecast=True)
            if limited is not None:
                project_id, most = limited
                db_limits.check_limits(
                    session, project_id, count_added(changed.lease, lease), most
                )
            shrinking = self._allocation_service.find_shrinking(lease, changed.lease, now, fields)
            if shrinking.keys() - less.keys():
                return _Unwritten(lease, changed.lease, needs_forecast=False)
            after = store.save(session, lease, changed, now, cause)
            calendar = self._allocation_service.calendar.transaction(session)
            done = self._allocation_service.reallocate_changed(
                calendar, lease, after, now, fields, less, partial
            )
            if done.more or done.refused:
                last = update.add_early_ends(lease, after, done.refused, now)
                awake = Change(reallocation.add_reallocations(last, done.more, now))
                store.save(session, after, awake, now, cause)
            return None

        return self._database.write(attempt)

    def _change_lease(
        self,
        context: RequestContext,
        values: Mapping[str, Any],
        rules: update.UpdateRules,
        lease: model.Lease,
        now: datetime.datetime,
    ) -> Change:
        """Return the change of a lease by the values of a request. Nothing is read or written."""
        items = []
        for place, item in enumerate(values.get('reservations') or ()):
            check_deadline()
            with prefix_field(f'reservations[{place}]'):
                try:
                    normalized = normalize_values(
                        self._plugins, context, lease, str(item.get('id')), item
                    )
                except exceptions.ReservationNotFound as exc:
                    # The reservation is not in the path of the request, but in its body.
                    raise exceptions.BadRequest(exc.message, field='id') from exc
                items.append({'id': item['id'], **normalized})
        asked = {**values, 'reservations': items} if items else values
        changed = update.update_lease(lease, asked, now, rules)
        self._quota.check_time(changed.lease, now, lease)
        self._quota.check_events(changed.lease, lease)
        check_stored_bytes(lease, changed.lease)
        return recount_amounts(self._plugins, lease, changed, now)

    def _check_limits(self, requested: RequestedChange) -> RequestedChange:
        """Check limits if the change adds to what its project holds; return it with the limits.

        The roles of a delegated token are compared here first: Keystone must not be called in the
        transaction.
        """
        if not self._quota.most.is_on and not requested.context.is_delegated:
            return requested
        lease = self._database.read(requested.load)
        after = requested.change(lease, self._clock.now()).lease
        most = self._quota.check_limits(after, lease)
        limited = None if most is None else (lease.project_id, most)
        return dataclasses.replace(requested, limited=limited)

    def _check_external(self, requested: RequestedChange) -> RequestedChange:
        """Check a change with the external service, before the transaction: that may be slow.

        :returns: with the generation that the lease must still have: the service permitted this
            change
        """
        if not self._external.on_update:
            return requested
        lease = self._database.read(requested.load)
        check_generation(lease, requested.generation)
        now = self._clock.now()
        after = requested.change(lease, now).lease
        if not self._quota.asks_external(after, lease):
            return requested
        self._quota.check_quota(after, now, lease)
        return dataclasses.replace(requested, generation=lease.generation)


def normalize_values(
    plugins: Mapping[str, ResourcePlugin],
    context: RequestContext,
    lease: model.Lease,
    reservation_id: str,
    values: Mapping[str, Any],
) -> Mapping[str, Any]:
    """Return the values of a reservation in the form that its plugin stores, without the ``id``.

    :raises climate_core.exceptions.BadRequest: its plugin forbids the change
    :raises climate_core.exceptions.Forbidden: only the owner of the lease may change it
    :raises climate_core.exceptions.InvalidState: its plugin permits the change before the start
    :raises climate_core.exceptions.ReservationNotFound: the lease does not have it
    """
    reservation = lease.get_reservation(reservation_id)
    plugin = plugins.get(reservation.resource_type)
    changeable = plugin.changeable if plugin is not None else ()
    for field in sorted(values.keys() - {'id', *changeable}):
        raise exceptions.BadRequest(
            f'{field} of this reservation cannot be changed; these can be: '
            f'{", ".join(changeable) or "none"}.',
            field=field,
        )
    asked = {name: each for name, each in values.items() if name != 'id'}
    if plugin is None:
        return asked
    kept = plugin.normalize(asked)
    for field in sorted(kept):
        if kept[field] != reservation.params.get(field):
            check_owner(plugin, lease, context, field)
    if lease.status not in {states.LeaseStatus.PENDING, *states.UNGRANTED}:
        _check_until_start(plugin, reservation, kept)
    return kept


def _check_until_start(
    plugin: ResourcePlugin, reservation: model.Reservation, kept: Mapping[str, Any]
) -> None:
    """Reject a change, after the start of the lease, of a value that the start has used."""
    for field in sorted(kept.keys() & plugin.until_start.keys()):
        if kept[field] != reservation.params.get(field):
            raise exceptions.InvalidState(
                f'{field}: can be changed only before the start of the lease. '
                f'{plugin.until_start[field]}',
                field=field,
            )


def recount_amounts(
    plugins: Mapping[str, ResourcePlugin],
    before: model.Lease,
    change: Change,
    now: datetime.datetime,
) -> Change:
    """Return a change with the amounts of its reservations by their new params.

    A reservation without amounts, as it waits or was not created, still has none.
    """
    old = {each.id: each for each in before.reservations}
    counted = []
    for each in change.lease.live:
        plugin, was = plugins.get(each.resource_type), old.get(each.id, each)
        if plugin is None or not was.amounts or each.params == was.params:
            continue
        amounts = plugin.amounts(each.params)
        if amounts is not None:
            counted.append(dataclasses.replace(each, amounts=amounts, updated_at=now))
    return dataclasses.replace(change, lease=change.lease.with_reservations(*counted))
