# SPDX-License-Identifier: Apache-2.0
"""Make a lease, or find that it is made already, and let resources join one.

The database judges: the id of a lease and the resource of a reservation are unique there. Who
loses a race finds what the winner wrote, and if that is what was asked for, it is the answer.
"""

import dataclasses
import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oslo_db import exception as db_exc
from oslo_log import log
from oslo_utils import uuidutils
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import holders, leases, store
from climate_core.db import limits as db_limits
from climate_core.lease import changes, history, idempotency, limits, model, request
from climate_core.manager import admission, draft, making, writing
from climate_core.manager.parts import Parts, asked

if TYPE_CHECKING:
    from climate_core.context import RequestContext

LOG = log.getLogger(__name__)


def create_lease(parts: Parts, context: 'RequestContext', values: Mapping[str, Any]) -> str:
    """Make a lease with its reservations, all or nothing.

    With an ``idempotency_key`` that an equal request had, its lease is the answer as it is. With
    an ``id`` that is taken by an equal lease of the same project, the reservations that it does
    not have yet join it. Without either, a request whose resources are held by an equal lease is
    answered with that lease.

    :param values: see :meth:`climate_core.manager.rpcapi.ManagerClient.create_lease`
    :returns: its id
    :raises climate_core.exceptions.ClimateError: it is refused, and nothing is left behind
    """
    try:
        return _create_lease(parts, context, values)
    except exceptions.NameTaken:
        # Perhaps by the stack of the lease that an equal request has made meanwhile.
        if find_present(parts, context, values)[1] is None:
            raise
        return _create_lease(parts, context, values)


def _create_lease(parts: Parts, context: 'RequestContext', values: Mapping[str, Any]) -> str:
    lease_id, present = find_present(parts, context, values)
    if present is not None and 'idempotency_key' in values:
        check_repeated(present, values)
        return present.id
    now = parts.clock.now()
    wanted = request.read(values, now, draft.defaults(parts.conf))
    if present is not None:
        return _add_missing(parts, context, present, wanted, values)
    new = draft.make(parts, context, lease_id, wanted, values, now)
    try:
        most = admission.check(parts, new.lease)
        lease = admission.with_end(parts, _with_digest(new.lease, values), now)
        writing.write(parts, context, new._replace(lease=lease), most, now, values)
    except db_exc.DBDuplicateEntry:
        return _find_equal(parts, context, new, wanted, values)
    except (exceptions.LimitExceeded, exceptions.LeaseNotPermitted):
        # Perhaps it is the lease of an equal request that leaves no room for this one.
        found = _equal(parts, context, new, wanted, values)
        if found is None:
            raise
        return found
    return lease_id


def find_present(
    parts: Parts, context: 'RequestContext', values: Mapping[str, Any]
) -> tuple[str, model.Lease | None]:
    """Return the id of the lease that is asked for, and the lease that has it already."""
    key = values.get('idempotency_key')
    chosen = values.get('id') if key is None else idempotency.lease_id(context.project_id, key)
    if not chosen:
        return uuidutils.generate_uuid(), None
    return chosen, parts.database.read(leases.find, chosen)


def add_reservation(
    parts: Parts,
    context: 'RequestContext',
    lease_id: str,
    values: Mapping[str, Any],
    generation: int | None = None,
) -> str:
    """Let a resource join a lease of the same project.

    :param generation: that of the lease that the user has seen; None: it does not matter
    :returns: the id of the reservation; one that holds this resource for this lease already is
        the answer as well
    :raises climate_core.exceptions.ResourceReserved: another lease holds the resource
    :raises climate_core.exceptions.GenerationConflict: the lease has another generation
    :raises climate_core.exceptions.ClimateError: it is refused
    """
    lease = parts.database.read(leases.get, lease_id)
    if lease.project_id != context.project_id:
        raise exceptions.LeaseNotFound(f'Lease {lease_id} was not found.')
    try:
        return _join(parts, context, lease, values, generation)
    except exceptions.NameTaken:
        # Perhaps by the stack that an equal request has made meanwhile.
        lease = parts.database.read(leases.get, lease_id)
        if (present := draft.find_wanted(parts, lease, values)) is None:
            raise
        return present.id


def _with_digest(lease: model.Lease, values: Mapping[str, Any]) -> model.Lease:
    if 'idempotency_key' not in values:
        return lease
    return dataclasses.replace(lease, request_digest=idempotency.digest(values))


def _find_equal(
    parts: Parts,
    context: 'RequestContext',
    new: draft.Draft,
    wanted: request.Wanted,
    values: Mapping[str, Any],
) -> str:
    """Somebody was faster: with this id, or with one of the resources."""
    found = _equal(parts, context, new, wanted, values)
    if found is not None:
        return found
    held_by = parts.database.read(holders.find, [draft.key(r) for r in new.lease.reservations])
    draft.check_free(context, new, held_by)
    # Whoever held it has given it back by now.
    raise exceptions.ResourceReserved(field='reservations')


def _equal(
    parts: Parts,
    context: 'RequestContext',
    new: draft.Draft,
    wanted: request.Wanted,
    values: Mapping[str, Any],
) -> str | None:
    """Find the lease that answers the same request already.

    :returns: its id; None if there is none
    :raises climate_core.exceptions.Conflict: the id or the key was used for something else
    """
    present = parts.database.read(leases.find, new.lease.id)
    if present is not None and 'idempotency_key' in values:
        check_repeated(present, values)
        return present.id
    if present is not None:
        return _add_missing(parts, context, present, wanted, values)
    keys = [draft.key(each) for each in new.lease.reservations]
    found = parts.database.read(holders.find, keys)
    equal = equal_holder(context, wanted, values, keys, found)
    return None if equal is None else equal.id


def equal_holder(
    context: 'RequestContext',
    wanted: request.Wanted,
    values: Mapping[str, Any],
    keys: Sequence[holders.Key],
    held: Mapping[holders.Key, model.Lease],
) -> model.Lease | None:
    """Return the lease that holds all that is wanted, if it is what is wanted.

    An id that was chosen is part of the request, so there is none then.

    :param keys: the resources of the request
    :param held: who holds which of them
    """
    if {'id', 'idempotency_key'} & values.keys() or len(held) < len(keys):
        return None
    found = {each.id: each for each in held.values()}
    if len(found) != 1:
        return None
    (lease,) = found.values()
    mine = lease.project_id == context.project_id and request.same(wanted, lease)
    return lease if mine else None


def check_repeated(present: model.Lease, values: Mapping[str, Any]) -> None:
    """Refuse an Idempotency-Key that was used for something else.

    :raises climate_core.exceptions.IdempotencyConflict: it was, or its lease is deleted
    """
    if present.deleted_at is not None or present.request_digest != idempotency.digest(values):
        raise exceptions.IdempotencyConflict(field='Idempotency-Key')


def check_same(context: 'RequestContext', present: model.Lease, wanted: request.Wanted) -> None:
    """Refuse an id that a different lease has, in the same words whosever it is.

    :raises climate_core.exceptions.LeaseConflict: it does
    """
    mine = present.project_id == context.project_id and present.deleted_at is None
    if not mine or not request.same(wanted, present):
        raise exceptions.LeaseConflict(
            f'The id {present.id} is taken by a different lease.', field='id'
        )


def _add_missing(
    parts: Parts,
    context: 'RequestContext',
    lease: model.Lease,
    wanted: request.Wanted,
    values: Mapping[str, Any],
) -> str:
    check_same(context, lease, wanted)
    # The API asks the policy about a lease that it sees; this one came after it looked. The API
    # of the first release asks before and does not say.
    if not values.get('may_join', True):
        raise exceptions.LeaseAppeared(field='id')
    now = parts.clock.now()
    made = draft.reserve(parts, context, lease.id, values, now, present=lease)
    # The plugin may have found another name for what the lease has.
    missing = {k: r for k, r in made.items() if draft.find(lease, draft.key(r)) is None}
    if missing:
        joining = dataclasses.replace(lease, reservations=tuple(missing.values()))
        _join_all(parts, context, lease, draft.Draft(joining, tuple(missing)), now, values)
    return lease.id


def _join_all(
    parts: Parts,
    context: 'RequestContext',
    lease: model.Lease,
    joining: draft.Draft,
    now: datetime.datetime,
    values: Mapping[str, Any],
) -> None:
    """Let several join, all or none.

    :param joining: the lease with nothing but these
    """
    new = joining.lease.reservations
    try:
        _write_all(
            parts,
            context,
            lease,
            None,
            new,
            now,
            lambda: making.of_draft(parts, context, joining, values),
            [values['reservations'][place] for place in joining.places],
        )
    except db_exc.DBDuplicateEntry:
        held_by = parts.database.read(holders.find, [draft.key(r) for r in new])
        others = {key: holder for key, holder in held_by.items() if holder.id != lease.id}
        draft.check_free(context, joining, others)
        # Whoever held it has given it back by now.
        raise exceptions.ResourceReserved(field='reservations')


def _join(
    parts: Parts,
    context: 'RequestContext',
    lease: model.Lease,
    values: Mapping[str, Any],
    generation: int | None = None,
) -> str:
    # What is awake already could not be reserved once more, so the plugin is asked afterwards.
    if (present := draft.find_wanted(parts, lease, values)) is not None:
        return present.id
    _check_seen(lease, generation)
    kind, claimed = parts.reserve(context, lease.id, values, lease)
    key = (kind, claimed.resource_id)
    if (present := draft.find(lease, key)) is not None:
        return present.id
    now = parts.clock.now()
    new = model.new_reservation(
        lease.id,
        kind,
        claimed.resource_id,
        claimed.params,
        now,
        claimed.amounts,
        claimed.parent_id,
    )
    try:
        (joined,) = _write_all(
            parts,
            context,
            lease,
            generation,
            [new],
            now,
            lambda: making.make(parts, context, lease.id, [new], [values]),
            [values],
        )
    except db_exc.DBDuplicateEntry:
        holder = parts.database.read(holders.find, [key]).get(key)
        raise draft.reserved_error(context, key, holder)
    return joined.id


def _write_all(
    parts: Parts,
    context: 'RequestContext',
    lease: model.Lease,
    generation: int | None,
    new: Sequence[model.Reservation],
    now: datetime.datetime,
    make: Callable[[], making.Made],
    values: Sequence[Mapping[str, Any]],
) -> list[model.Reservation]:
    """Write what joins a lease.

    :param make: makes what is made for it
    :param values: what the request says of each
    :returns: with what the lease has each of them now
    """
    after = dataclasses.replace(lease, reservations=(*lease.reservations, *new))
    # What has no end any more is told before something is made for it.
    changes.add_reservations.apply(lease, new, now)
    most = admission.check(parts, after, lease)
    cause = asked(context, 'reservation.create')
    made = make()
    try:
        written = parts.database.write(
            _write_join, parts, lease, generation, made, values, most, now, cause
        )
    except writing.MAYBE_WRITTEN:
        making.discard(parts, made.new)
        raise
    held_now = {draft.key(each): each for each in written.live}
    return [held_now[draft.key(each)] for each in made.reservations]


def _write_join(
    session: orm.Session,
    parts: Parts,
    seen: model.Lease,
    generation: int | None,
    made: making.Made,
    values: Sequence[Mapping[str, Any]],
    most: limits.Amounts | None,
    now: datetime.datetime,
    cause: history.Cause,
) -> model.Lease:
    db_limits.lock(session, seen.project_id, most)
    lease = leases.get(session, seen.id, lock=True)
    # What joined while we asked, and may not be asked to join twice.
    missing = []
    for each, wanted in zip(made.reservations, values, strict=True):
        found = draft.find(lease, draft.key(each))
        if found is None:
            missing.append(each)
        elif each.id in made.found:
            _check_wanted(parts, found, wanted)
    if not missing:
        return lease
    _check_seen(lease, generation)
    db_limits.check(session, seen.project_id, limits.amounts(missing), most)
    preparing = made.preparing & {each.id for each in missing}
    return store.save(
        session, lease, changes.add_reservations.apply(lease, missing, now, preparing), now, cause
    )


def _check_wanted(parts: Parts, found: model.Reservation, wanted: Mapping[str, Any]) -> None:
    """Refuse what an earlier request made if the lease does not have it in this form.

    :raises climate_core.exceptions.NameTaken: it could not be held, or is something else
    """
    if not parts.plugins[found.resource_type].matches_request(found, wanted):
        raise exceptions.NameTaken(
            f'{found.resource_type} {found.resource_id} of this name could not be held and is '
            'being given back; the name is free when that is done.',
            field='name',
        )


def _check_seen(lease: model.Lease, generation: int | None) -> None:
    if generation not in (None, lease.generation):
        raise exceptions.GenerationConflict
