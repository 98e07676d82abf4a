# SPDX-License-Identifier: Apache-2.0
"""What a request for a lease would make: the part that making one and a dry run share.

Each step takes a :class:`~climate_core.lease.refusals.Refusals`, so that the first refusal ends
the one and the other finds them all.
"""

import datetime
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from oslo_config import cfg

from climate_common import dates
from climate_core import exceptions
from climate_core.conf.webhooks import networks
from climate_core.db import holders
from climate_core.lease import changes, model, request, states, webhook
from climate_core.lease.refusals import AT_ONCE, Refusals
from climate_core.manager.parts import Parts

if TYPE_CHECKING:
    from climate_core.context import RequestContext

T = TypeVar('T')


class Draft(NamedTuple):
    """A lease that is not written.

    :param lease: it has no trust yet
    :param places: where in the request its reservations stand
    """

    lease: model.Lease
    places: tuple[int, ...]


def defaults(conf: cfg.ConfigOpts) -> request.Defaults:
    """Return what climate.conf says about requests."""
    return request.Defaults(conf.manager.minutes_before_end_lease, webhook_rules(conf))


def webhook_rules(conf: cfg.ConfigOpts) -> webhook.Rules:
    """Return where webhooks may be."""
    section = conf.webhooks
    return webhook.Rules(
        allowed=networks(section.allowed_networks),
        refused=networks(section.refused_networks),
        enabled=section.enabled,
    )


def make(
    parts: Parts,
    context: 'RequestContext',
    lease_id: str,
    wanted: request.Wanted,
    values: Mapping[str, Any],
    now: datetime.datetime,
    refusals: Refusals = AT_ONCE,
    present: model.Lease | None = None,
) -> Draft:
    """Return the lease that a request makes.

    :param present: a lease that has the id already: the time of the request does not matter then,
        nor what that lease holds
    :raises climate_core.exceptions.ClimateError: its time is past, or it cannot be reserved
    """
    if present is None:
        request.check_time(wanted, now, parts.conf.manager.late_start_seconds, refusals)
    reserved = reserve(parts, context, lease_id, values, now, refusals, present)
    policy = wanted.start_policy or states.StartPolicy.AUTO
    before_start = wanted.before_start or ()
    told = {*before_start, *parts.conf.manager.before_start_seconds}
    lease = model.Lease(
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
        trust_id=None,
        generation=0,
        created_at=now,
        updated_at=None,
        deleted_at=None,
        start_policy=policy,
        before_start=before_start,
        webhook=wanted.webhook,
        reservations=model.in_order((), reserved.values()),
        events=changes.create.first_events(
            lease_id,
            wanted.start,
            wanted.end,
            wanted.before_end,
            wanted.events,
            now,
            manual=policy == states.StartPolicy.MANUAL,
            before_start=told,
        ),
    )
    return Draft(lease, tuple(reserved))


def reserve(
    parts: Parts,
    context: 'RequestContext',
    lease_id: str,
    values: Mapping[str, Any],
    now: datetime.datetime,
    refusals: Refusals = AT_ONCE,
    present: model.Lease | None = None,
) -> dict[int, model.Reservation]:
    """Ask the plugins for the reservations of a request.

    :param present: a lease that has some of them already, which are left out
    :returns: place in the request -> reservation
    """
    made: dict[int, model.Reservation] = {}
    seen = set()
    for place, item in enumerate(values.get('reservations') or ()):
        with refusals.noted():
            if present is not None and at(place, find_wanted, parts, present, item) is not None:
                continue
            kind, claimed = at(place, parts.reserve, context, lease_id, item, present)
            if (kind, claimed.resource_id) in seen:
                raise exceptions.BadRequest(
                    'A resource can be reserved only once.', field='reservations'
                )
            seen.add((kind, claimed.resource_id))
            made[place] = model.new_reservation(
                lease_id,
                kind,
                claimed.resource_id,
                claimed.params,
                now,
                claimed.amounts,
                claimed.parent_id,
            )
    return made


def at(place: int, function: Callable[..., T], *args: Any) -> T:
    """Call a function for one of several reservations; its refusal says which one it was."""
    try:
        return function(*args)
    except exceptions.ClimateError as exc:
        if exc.field is not None:
            exc.field = f'reservations[{place}].{exc.field}'
        raise


def key(reservation: model.Reservation) -> holders.Key:
    """Return the resource of a reservation."""
    return reservation.resource_type, reservation.resource_id


def find_wanted(
    parts: Parts, lease: model.Lease, values: Mapping[str, Any]
) -> model.Reservation | None:
    """Return the reservation with which a lease has what one of a request asks for already.

    :raises climate_core.exceptions.ResourceReserved: it is being taken out of the lease
    """
    plugin = parts.plugins.get(str(values.get('resource_type')))
    if plugin is None:
        return None
    same = (each for each in lease.live if each.resource_type == plugin.resource_type)
    return _staying(next((each for each in same if plugin.matches_request(each, values)), None))


def find(lease: model.Lease, what: holders.Key) -> model.Reservation | None:
    """Return the reservation with which a lease holds a resource.

    :raises climate_core.exceptions.ResourceReserved: it is being taken out of the lease
    """
    return _staying(next((each for each in lease.live if key(each) == what), None))


def _staying(found: model.Reservation | None) -> model.Reservation | None:
    if found is not None and found.status == states.ReservationStatus.DELETING:
        raise exceptions.ResourceReserved(
            f'{found.resource_type} {found.resource_id} is being taken out of this lease; it is '
            'free when that is done.',
            field='resource_id',
        )
    return found


def reserved_error(
    context: 'RequestContext', what: holders.Key, holder: model.Lease | None
) -> exceptions.ResourceReserved:
    """Make the refusal of a resource that is reserved.

    Only who holds a lease of the same project learns which one it is.
    """
    if holder is None or holder.project_id != context.project_id:
        return exceptions.ResourceReserved(field='resource_id')
    return exceptions.ResourceReserved(
        f'{what[0]} {what[1]} is already reserved by lease {holder.id}, from '
        f'{dates.serialize(holder.start_date)} to {dates.serialize(holder.end_date)} (UTC).',
        field='resource_id',
    )


def check_free(
    context: 'RequestContext',
    draft: Draft,
    held: Mapping[holders.Key, model.Lease],
    refusals: Refusals = AT_ONCE,
) -> None:
    """Refuse resources that others hold.

    :param held: who holds which
    :raises climate_core.exceptions.ResourceReserved: one is held
    """
    for place, reservation in zip(draft.places, draft.lease.reservations, strict=True):
        what = key(reservation)
        if what in held:
            error = reserved_error(context, what, held[what])
            error.field = f'reservations[{place}].{error.field}'
            refusals.add(error)
