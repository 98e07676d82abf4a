# SPDX-License-Identifier: Apache-2.0
"""Make a lease, or find that it is made already, and let resources join one.

The database judges: the id of a lease and the resource of a reservation are unique there. Who
loses a race finds what the winner wrote, and if that is what was asked for, it is the answer.
"""

import datetime
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oslo_db import exception as db_exc
from oslo_log import log
from oslo_utils import uuidutils
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import leases, reservations, store
from climate_core.db.engine import TROUBLE
from climate_core.lease import history, model, plan, request, states
from climate_core.manager.parts import Parts, asked

if TYPE_CHECKING:
    from climate_core.context import RequestContext

LOG = log.getLogger(__name__)


def create_lease(parts: Parts, context: 'RequestContext', values: Mapping[str, Any]) -> str:
    """Make a lease with its reservations, all or nothing.

    With an ``id`` that is taken by an equal lease of the same project, the reservations that it
    does not have yet join it. A request whose resources are held by an equal lease is answered
    with that lease.

    :param values: see :meth:`climate_core.manager.rpcapi.ManagerClient.create_lease`
    :returns: its id
    :raises climate_core.exceptions.ClimateError: it is refused, and nothing is left behind
    """
    now = parts.clock.now()
    wanted = request.read(values, now, parts.conf.manager.minutes_before_end_lease)
    wanted_id = values.get('id')
    if wanted_id and (present := parts.database.read(leases.find, wanted_id)) is not None:
        return _add_missing(parts, context, present, wanted, values)
    request.check_time(wanted, now, parts.conf.manager.late_start_seconds)
    lease_id = wanted_id or uuidutils.generate_uuid()
    reserved = _reserve_all(parts, context, lease_id, values, now)
    try:
        _write(parts, context, lease_id, wanted, reserved, now)
    except db_exc.DBDuplicateEntry:
        return _find_equal(parts, context, lease_id, wanted, values, reserved)
    return lease_id


def check_lease(
    parts: Parts, context: 'RequestContext', values: Mapping[str, Any]
) -> dict[str, Any]:
    """Tell what would become of :func:`create_lease`; nothing is written."""
    now = parts.clock.now()
    wanted = request.read(values, now, parts.conf.manager.minutes_before_end_lease)
    request.check_time(wanted, now, parts.conf.manager.late_start_seconds)
    _reserve_all(parts, context, uuidutils.generate_uuid(), values, now)
    return {'granted': True, 'refusals': [], 'available_from': None}


def add_reservation(
    parts: Parts, context: 'RequestContext', lease_id: str, values: Mapping[str, Any]
) -> str:
    """Let a resource join a lease of the same project.

    :returns: the id of the reservation; one that holds this resource for this lease already is
        the answer as well
    :raises climate_core.exceptions.ResourceReserved: another lease holds the resource
    :raises climate_core.exceptions.ClimateError: it is refused
    """
    lease = parts.database.read(leases.get, lease_id)
    if lease.project_id != context.project_id:
        raise exceptions.LeaseNotFound(f'Lease {lease_id} was not found.')
    return _join(parts, context, lease, values)


def _reserve_all(
    parts: Parts,
    context: 'RequestContext',
    lease_id: str,
    values: Mapping[str, Any],
    now: datetime.datetime,
) -> list[model.Reservation]:
    found = [parts.reserve(context, item) for item in values.get('reservations') or ()]
    keys = [(kind, claimed.resource_id) for kind, claimed in found]
    if len(set(keys)) < len(keys):
        raise exceptions.BadRequest('A resource can be reserved only once.', field='reservations')
    # The time keeps the order of the request: it is the order in which they are woken.
    return [
        plan.new_reservation(
            lease_id,
            kind,
            claimed.resource_id,
            claimed.params,
            now + datetime.timedelta(microseconds=place),
            claimed.amounts,
        )
        for place, (kind, claimed) in enumerate(found)
    ]


def _write(
    parts: Parts,
    context: 'RequestContext',
    lease_id: str,
    wanted: request.Wanted,
    reserved: Sequence[model.Reservation],
    now: datetime.datetime,
) -> None:
    trust_id = parts.trusts.create(context)
    lease = _new_lease(context, lease_id, wanted, reserved, trust_id, now)
    try:
        parts.database.write(store.create, lease, now, asked(context, 'lease.create'))
    except TROUBLE:
        if not _was_written(parts, lease_id, trust_id):
            raise


def _was_written(parts: Parts, lease_id: str, trust_id: str) -> bool:
    """Tell whether a commit went through before the connection broke; if not, forget the trust.

    As long as that is not known the trust stays: a lease without its trust could not start.
    """
    try:
        present = parts.database.read(leases.find, lease_id)
    except TROUBLE:
        LOG.error(
            'Whether lease %s was written is not known, so the trust %s stays. If no lease has '
            'it, delete it, or let [cloud] sweep_trusts do so',
            lease_id,
            trust_id,
        )
        return False
    if present is not None and present.trust_id == trust_id:
        return True
    _forget_trust(parts, trust_id)
    return False


def _new_lease(
    context: 'RequestContext',
    lease_id: str,
    wanted: request.Wanted,
    reserved: Sequence[model.Reservation],
    trust_id: str,
    now: datetime.datetime,
) -> model.Lease:
    return model.Lease(
        id=lease_id,
        name=wanted.name,
        project_id=str(context.project_id),
        user_id=str(context.user_id),
        start_date=wanted.start,
        end_date=wanted.end,
        before_end_date=wanted.before_end,
        status=states.LeaseStatus.PENDING,
        status_reason=None,
        degraded=False,
        trust_id=trust_id,
        generation=0,
        created_at=now,
        updated_at=None,
        deleted_at=None,
        reservations=tuple(reserved),
        events=plan.first_events(
            lease_id, wanted.start, wanted.end, wanted.before_end, wanted.events, now
        ),
    )


def _forget_trust(parts: Parts, trust_id: str) -> None:
    try:
        parts.trusts.delete(trust_id)
    except (exceptions.Transient, exceptions.Permanent, exceptions.ClimateError):
        LOG.warning('The trust %s of a lease that was not made stays', trust_id, exc_info=True)


def _find_equal(
    parts: Parts,
    context: 'RequestContext',
    lease_id: str,
    wanted: request.Wanted,
    values: Mapping[str, Any],
    reserved: Sequence[model.Reservation],
) -> str:
    """Somebody was faster: with this id, or with one of the resources."""
    present = parts.database.read(leases.find, lease_id)
    if present is not None:
        return _add_missing(parts, context, present, wanted, values)
    holders = parts.database.read(_holders, reserved)
    for lease in holders:
        mine = lease.project_id == context.project_id and request.same(wanted, lease)
        held = {(r.resource_type, r.resource_id) for r in lease.live}
        # An id that was chosen is part of the request.
        if mine and not values.get('id') and held >= _keys(reserved):
            return lease.id
    raise exceptions.ResourceReserved(field='resource_id')


def _keys(reserved: Sequence[model.Reservation]) -> set[tuple[str, str]]:
    return {(r.resource_type, r.resource_id) for r in reserved}


def _holders(session: orm.Session, reserved: Sequence[model.Reservation]) -> list[model.Lease]:
    found = (reservations.holder(session, r.resource_type, r.resource_id) for r in reserved)
    return [leases.get(session, lease_id) for lease_id in {r.lease_id for r in found if r}]


def _add_missing(
    parts: Parts,
    context: 'RequestContext',
    lease: model.Lease,
    wanted: request.Wanted,
    values: Mapping[str, Any],
) -> str:
    mine = lease.project_id == context.project_id and lease.deleted_at is None
    if not mine or not request.same(wanted, lease):
        raise exceptions.LeaseConflict(
            f'The id {lease.id} is taken by a different lease.', field='id'
        )
    for item in values.get('reservations') or ():
        _join(parts, context, lease, item)
    return lease.id


def _join(
    parts: Parts, context: 'RequestContext', lease: model.Lease, values: Mapping[str, Any]
) -> str:
    kind, claimed = parts.reserve(context, values)
    now = parts.clock.now()
    new = plan.new_reservation(
        lease.id, kind, claimed.resource_id, claimed.params, now, claimed.amounts
    )
    try:
        cause = asked(context, 'reservation.create')
        return parts.database.write(_write_join, lease.id, new, now, cause)
    except db_exc.DBDuplicateEntry:
        holder = parts.database.read(reservations.holder, kind, claimed.resource_id)
        if holder is not None and holder.lease_id == lease.id:
            return holder.id
        raise exceptions.ResourceReserved(field='resource_id')


def _write_join(
    session: orm.Session,
    lease_id: str,
    new: model.Reservation,
    now: datetime.datetime,
    cause: history.Cause,
) -> str:
    lease = leases.get(session, lease_id, lock=True)
    for present in lease.live:
        if (present.resource_type, present.resource_id) == (new.resource_type, new.resource_id):
            return present.id
    store.save(session, lease, plan.join(lease, [new], now), now, cause)
    return new.id
