# SPDX-License-Identifier: Apache-2.0
"""Write the draft of a create: check the quota, provision, and persist, all or nothing.

New leases of a project that come at the same time and need no calendar share one transaction.
"""

import dataclasses
import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from oslo_db import exception as db_exc
from sqlalchemy import orm

from climate_common import words
from climate_core import exceptions
from climate_core.concurrency import deadline
from climate_core.context import RequestContext
from climate_core.db import leases, owner_trusts, store
from climate_core.db import limits as db_limits
from climate_core.db import owner_trusts as db_trusts
from climate_core.db.engine import TROUBLE, Database, Stale
from climate_core.db.groups import Groups, Outcome
from climate_core.lease import changes, limits, model, states
from climate_core.lease.history import LIMITED, Cause, join_cause, user_cause
from climate_core.lease.results import Change
from climate_core.operations import pool_forecast
from climate_core.operations.allocation_service import AllocationService
from climate_core.operations.draft import Draft, Item, find_held
from climate_core.operations.draft_builder import check_generation
from climate_core.operations.idempotent_create import (
    DUPLICATE_ERRORS,
    detect_lease_appeared,
    find_equal_lease,
)
from climate_core.operations.preemption import PREEMPTS, Preemption
from climate_core.operations.provisioning import OwnerTrusts, Provisioned, Provisioner
from climate_core.operations.quota import Quota
from climate_core.operations.wait_queue import WaitQueue
from climate_core.plugins import specified
from climate_core.plugins.base import ResourcePlugin
from climate_hosts.operations.making_room import RoomMaker

#: The most leases of one transaction: the others of the project wait for its commit.
MAX_GROUP_SIZE: Final = 32


class DraftWrite(NamedTuple):
    """Hold what the transaction of a request writes, and by what it is judged.

    :param most: the limits of the project; None: none
    """

    draft: Draft
    done: Provisioned
    most: limits.Amounts | None
    cause: Cause


class NewLeaseGroups:
    """Write new leases that ask nothing of the calendar, see :func:`is_plain`.

    :param write_one: writes a lease in a transaction: ``write_one(session, writing)``
    """

    def __init__(
        self,
        database: Database,
        owner_trusts: OwnerTrusts,
        quota: Quota,
        write_one: Callable[[orm.Session, DraftWrite], model.Lease],
    ) -> None:
        self._owner_trusts, self._quota = owner_trusts, quota
        self.groups = Groups[DraftWrite, model.Lease](
            database,
            write_one,
            self._write_all,
            lambda each: each.draft.lease.id,
            MAX_GROUP_SIZE,
            line=lambda each: each.draft.lease.project_id,
        )

    def write(self, writing: DraftWrite) -> model.Lease:
        """Write a new lease, perhaps with others of its project; raises as ``write_one``."""
        try:
            return self.groups.write(writing)
        except exceptions.LimitExceeded:
            # The limits that it was written with may have been raised meanwhile.
            most = self._quota.check_limits(writing.draft.lease, None)
            return self.groups.write(writing._replace(most=most))

    def _write_all(
        self, session: orm.Session, group: Sequence[DraftWrite]
    ) -> list[Outcome[model.Lease]]:
        project_id = group[0].draft.lease.project_id
        most = next((each.most for each in group if each.most is not None), None)
        db_limits.lock(session, project_id, most)
        used: limits.Amounts = {} if most is None else db_limits.used(session, project_id)
        shared = {_trust_id(each) for each in group if _shares(each.done)}
        live = db_trusts.live(session, shared)
        outcomes: list[Outcome[model.Lease]] = []
        new: list[store.NewLease] = []
        for each in group:
            lease = each.done.new_lease(each.draft)
            try:
                used = _check_grouped(each, lease, used, live)
            except (exceptions.LimitExceeded, db_trusts.Retired) as exc:
                outcomes.append((None, exc))
                continue
            keep_trust(session, self._owner_trusts, each.done)
            new.append(store.NewLease(lease, each.draft.now, each.cause))
            outcomes.append((lease, None))
        store.create_all(session, new)
        if most is not None:
            self._quota.note(project_id, used)
        return outcomes


def needs_no_calendar(draft: Draft) -> bool:
    """Return whether a draft is a new lease for which nothing but its own rows is written."""
    return (
        draft.before is None
        and not (draft.wait_reason or draft.hosts_to_evacuate or draft.preempted)
        and not draft.may_wait
        and all(each.reservation.unit_kind is None for each in draft.items)
    )


def keep_trust(session: orm.Session, owner_trusts: OwnerTrusts, done: Provisioned) -> bool:
    """Let others share a new trust; return whether the lease shares one that is there."""
    assert done.trust is not None  # nosec B101 # for mypy: it holds already
    owner_trusts.keep(session, done.trust)
    return _shares(done)


def _shares(done: Provisioned) -> bool:
    return done.trust is not None and not done.trust.is_new


def _trust_id(writing: DraftWrite) -> str:
    assert writing.done.trust is not None  # nosec B101 # for mypy: it holds already
    return writing.done.trust.id


def _check_grouped(
    writing: DraftWrite, lease: model.Lease, used: limits.Amounts, live: set[str]
) -> limits.Amounts:
    """Check a lease before anything of it is written.

    :param used: what its project holds, with those before it
    :param live: the ids of the trusts that may be shared
    :returns: what the project holds with it
    :raises climate_core.exceptions.LimitExceeded: that is too much
    :raises climate_core.db.owner_trusts.Retired: its trust is not to be shared any more
    """
    if _shares(writing.done) and _trust_id(writing) not in live:
        raise db_trusts.Retired
    return limits.with_more(writing.most, used, limits.amounts(lease.live, leases=1))


#: After these the lease may be written. Also after a refusal: an attempt that follows a lost
#: connection counts what the one before it wrote.
_MAYBE_WRITTEN: tuple[type[Exception], ...] = (exceptions.ClimateError, Stale, *TROUBLE)

#: With how many trusts of its owner a lease is tried; a new one cannot be retired before it.
_TRUST_ATTEMPTS = 3

#: The reason of a lease that waits although there would be enough for it.
_BEHIND = 'Leases that have waited for longer, or have a higher priority, come first.'


class WriteResult(NamedTuple):
    """The lease of a request, and the reservations that were asked for, none of an equal lease.

    :param is_new: whether the request made the lease, which is then whole
    """

    lease: model.Lease
    reservations: tuple[model.Reservation, ...] = ()
    is_new: bool = False


@dataclasses.dataclass
class LeaseWriter:
    """Write drafts, all or nothing."""

    database: Database
    quota: Quota
    provisioner: Provisioner
    plugins: Mapping[str, ResourcePlugin]
    allocation_service: AllocationService
    queue: WaitQueue
    evacuation_planner: RoomMaker
    preemption: Preemption

    def __post_init__(self) -> None:
        trusts = self.provisioner.owner_trusts
        self.new_leases = NewLeaseGroups(self.database, trusts, self.quota, self.persist)

    def write_draft(self, context: RequestContext, draft: Draft) -> WriteResult:
        """Write what a request adds, or find that it is written already.

        :raises climate_core.exceptions.LeaseAppeared: an equal request may have been faster
        """
        if draft.before is not None and not draft.items:
            return WriteResult(
                self._record_made(context, draft, draft.before), draft.already_reserved
            )
        self.preemption.check(draft)
        try:
            with detect_lease_appeared(self.database, draft.lease.id, draft.before):
                return self._write(context, draft)
        except DUPLICATE_ERRORS as exc:
            return WriteResult(find_equal_lease(self.database, context, draft, exc))

    def _record_made(
        self, context: RequestContext, draft: Draft, before: model.Lease
    ) -> model.Lease:
        """Record what was created for a reservation, as its service reports it first.

        So its limits, usage and end are known although the manager that asked for it died.

        :raises climate_core.exceptions.InvalidState: another resource was faster
        """
        known = {each.id: each.resource_id for each in before.reservations}
        made = [each for each in draft.already_reserved if each.resource_id != known[each.id]]
        if not made:
            return before
        cause = join_cause(context)
        try:
            return self.database.write(_write_created_resources, before.id, made, draft.now, cause)
        except db_exc.DBDuplicateEntry as exc:
            raise exceptions.ResourceReserved(field='resource_id') from exc

    def _write(self, context: RequestContext, draft: Draft) -> WriteResult:
        # Before the transaction counts nothing is made for it.
        creates_nothing = needs_no_calendar(draft) and all(
            each.reservation.is_made for each in draft.items
        )
        most = self.quota.check_quota(
            draft.lease, draft.now, draft.before, creates_nothing=creates_nothing
        )
        draft = self._admit(context, draft)
        done = self.provisioner.provision(context, draft)
        is_new = draft.before is None
        cause = user_cause(context, 'lease.create') if is_new else join_cause(context)
        try:
            # What was made is held by a lease, or is discarded; the calendar may be slow at it.
            with deadline(None):
                lease = self._persist_with_trust(context, DraftWrite(draft, done, most, cause))
        except _MAYBE_WRITTEN:
            found = self.provisioner.discard(done, draft)
            if found is None:
                raise
            lease = found
        held = {each.key: each for each in lease.live}
        made = tuple(held[each.reservation.key] for each in done.items)
        return WriteResult(lease, draft.already_reserved + made, draft.before is None)

    def _admit(self, context: RequestContext, draft: Draft) -> Draft:
        """Ask the calendar and the forecast; return the draft of a lease that waits as such a one.

        It also waits if there is enough while others wait: they come first.
        """
        try:
            draft = self._admit_promised(draft)
            pool_forecast.check_draft(self.database, self.evacuation_planner.cloud, context, draft)
        except exceptions.NotEnough as exc:
            found = self.preemption.find_servers(draft)
            if draft.may_wait:
                waits = exc.message if found is None else PREEMPTS
                return dataclasses.replace(found or draft, wait_reason=waits)
            if found is None:
                raise
            return found
        behind = draft.may_wait and self.database.read(leases.is_any_waiting, draft.lease.priority)
        return dataclasses.replace(draft, wait_reason=_BEHIND) if behind else draft

    def _admit_promised(self, draft: Draft) -> Draft:
        """Ask the calendar; return the draft of a lease for which others give something up as one.

        The index in memory is trusted where an error of it only costs a trust made for nothing:
        the transaction decides.

        :raises climate_core.exceptions.NotEnough: there is not enough even so
        """
        best_effort = draft.lease.kind == states.LeaseKind.BEST_EFFORT
        proposed = None if best_effort else self.allocation_service.propose_units(draft)
        try:
            if proposed is None:
                self.allocation_service.check_capacity(draft)
        except exceptions.NotEnough as exc:
            if draft.before is None and best_effort:
                emptied = self.evacuation_planner.find(draft, exc)
                waits = f'{words.counted(len(emptied), "shared host")} must be emptied for it.'
                return dataclasses.replace(draft, wait_reason=waits, hosts_to_evacuate=emptied)
            preempted = self.preemption.find(draft)
            if preempted is None:
                raise
            return preempted
        return dataclasses.replace(draft, proposed=proposed or frozenset())

    def _persist_with_trust(self, context: RequestContext, writing: DraftWrite) -> model.Lease:
        """Write a draft; with another trust if the one that it was to share is retired by now."""
        for _ in range(_TRUST_ATTEMPTS):
            try:
                return self._persist(writing)
            except owner_trusts.Retired:
                self.provisioner.replace_trust(context, writing.done)
        raise exceptions.ServiceUnavailable(
            'The trust of the owner was retired while the lease was written, several times: try '
            'again.'
        )

    def _persist(self, writing: DraftWrite) -> model.Lease:
        """Write a draft; if others were faster it waits, or preempts other leases, if it may."""
        draft = writing.draft
        if needs_no_calendar(draft):
            return self.new_leases.write(writing)
        try:
            return self.database.write(self.persist, writing)
        except exceptions.NotEnough as exc:
            found = (
                dataclasses.replace(draft, wait_reason=exc.message, preempted=())
                if draft.may_wait
                else self.preemption.find(draft)
            )
            if found is None:
                raise
            return self.database.write(self.persist, writing._replace(draft=found))

    def persist(self, session: orm.Session, writing: DraftWrite) -> model.Lease:
        """Write a new lease, or let reservations join one that is locked first.

        :raises oslo_db.exception.DBDuplicateEntry: its id, or a resource, is taken
        :raises climate_core.exceptions.NotEnough: the calendar has not what it demands
        """
        draft, done, most, cause = writing
        project_id = draft.lease.project_id
        db_limits.lock(session, project_id, most)
        if draft.before is None:
            lease = done.new_lease(draft)
            if draft.hosts_to_evacuate:
                lease = self.evacuation_planner.add(session, draft, lease)
            elif draft.wait_reason or draft.may_wait:
                lease = self.queue.add(draft, lease)
            adding = limits.amounts(lease.live, leases=1)
            self.quota.note(project_id, db_limits.check(session, project_id, adding, most))
            shares = keep_trust(session, self.provisioner.owner_trusts, done)
            store.create(session, lease, draft.now, cause, shares)
            self.preemption.preempt(session, draft)
            if lease.status in states.UNGRANTED:
                return lease
            return self._promise(session, draft, lease, lease.reservations)
        lease = leases.get(session, draft.lease.id, lock=True)
        missing = self._missing(lease, done)
        if not missing:
            return lease
        check_generation(lease, draft.generation)
        if cause.action in LIMITED:
            self.quota.check_changes(session, lease)
        db_limits.check(session, project_id, limits.amounts(missing), most)
        joining = {each.id for each in missing}
        preparing = {each: done.preparing[each] for each in joining & done.preparing.keys()}
        change = changes.add_reservations.apply(lease, missing, draft.now, preparing)
        self.quota.check_reservations(change.lease)
        after = store.save(session, lease, change, draft.now, cause)
        return self._promise(session, draft, after, missing)

    def _promise(
        self,
        session: orm.Session,
        draft: Draft,
        lease: model.Lease,
        reservations: Iterable[model.Reservation],
    ) -> model.Lease:
        fields = {item.reservation.id: item.field for item in draft.items}
        return self.allocation_service.allocate(
            session, lease, reservations, fields, draft.now, proposed=draft.proposed
        )

    def _missing(self, lease: model.Lease, done: Provisioned) -> Sequence[model.Reservation]:
        """Return what has not joined since the draft was built: nothing may join twice."""
        missing, held = [], {each.key: each for each in lease.live}
        for item in done.items:
            found = find_held(held, item.reservation.key)
            if found is None:
                missing.append(item.reservation)
            elif item.reservation.id in done.reused:
                self._check_reused(found, item)
        return missing

    def _check_reused(self, found: model.Reservation, item: Item) -> None:
        """Refuse what an earlier request made if the lease does not have it in this form."""
        plugin = self.plugins[found.resource_type]
        keys = plugin.request_keys(found.lease_id, item.values)
        if set(keys).isdisjoint(plugin.reservation_keys(found)):
            raise exceptions.NameTaken(
                f'{found.resource_type} {found.resource_id} of this name could not be held and is '
                'being given back; the name is free when that is done.',
                field='name',
            )
        plugin.check_match(found, item.values)


def _write_created_resources(
    session: orm.Session,
    lease_id: str,
    made: Sequence[model.Reservation],
    now: datetime.datetime,
    cause: Cause,
) -> model.Lease:
    lease = leases.get(session, lease_id, lock=True)
    held = {each.id: each for each in lease.live}
    changed = []
    for each in made:
        found = held.get(each.id)
        if found is None or (found.is_made and found.resource_id != each.resource_id):
            raise exceptions.InvalidState(
                'made_for: another resource was created for the reservation, or it has ended.',
                field=specified.MADE_FOR,
            )
        changed.append(dataclasses.replace(found, resource_id=each.resource_id))
    change = Change(lease.with_reservations(*changed))
    return store.save(session, lease, change, now, cause)
