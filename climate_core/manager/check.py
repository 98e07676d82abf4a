# SPDX-License-Identifier: Apache-2.0
"""The dry run: what would become of a request for a lease. Nothing is written."""

import datetime
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from climate_common import dates
from climate_core import exceptions
from climate_core.db import holders
from climate_core.lease import changes, model, request
from climate_core.lease.refusals import Refusals
from climate_core.manager import admission, create, draft
from climate_core.manager.parts import Parts

if TYPE_CHECKING:
    from climate_core.context import RequestContext


def check_lease(
    parts: Parts, context: 'RequestContext', values: Mapping[str, Any]
) -> dict[str, Any]:
    """Tell what would become of :func:`climate_core.manager.create.create_lease`.

    :returns: ``granted``; ``refusals``, all that can be found, as the API answers errors;
        ``available_from``, the earliest start from which on the same request would be granted, if
        waiting helps and that is known; ``start_date`` and ``end_date``
    :raises climate_core.exceptions.BadRequest: the start or the end has no meaning
    :raises climate_core.exceptions.ServiceUnavailable: who must be asked does not answer
    """
    refusals = Refusals(collect=True)
    lease_id, present = create.find_present(parts, context, values)
    if present is not None and 'idempotency_key' in values:
        refusals.get(None, create.check_repeated, present, values)
        return _answer(refusals, present.start_date, present.end_date)
    now = parts.clock.now()
    wanted = request.read(values, now, draft.defaults(parts.conf), refusals)
    if present is not None and present.project_id != context.project_id:
        # Nothing that it has may be told.
        refusals.get(None, create.check_same, context, present, wanted)
        return _answer(refusals, wanted.start, wanted.end)
    new = draft.make(parts, context, lease_id, wanted, values, now, refusals, present)
    keys = [draft.key(each) for each in new.lease.reservations]
    held = parts.database.read(holders.find, keys)
    if create.equal_holder(context, wanted, values, keys, held) is not None:
        return _answer(refusals, wanted.start, wanted.end)
    others = {key: lease for key, lease in held.items() if lease.id != lease_id}
    draft.check_free(context, new, others, refusals)
    waits = [_free_from(parts, context, *item, now) for item in others.items()]
    if present is not None:
        missing = [r for r in new.lease.reservations if draft.key(r) not in held]
        _check_join(parts, context, present, wanted, missing, refusals)
    else:
        found, fits = admission.refusals(parts, new.lease)
        refusals.found += found
        waits += [fits for each in found if isinstance(each, exceptions.LimitExceeded)]
    return _answer(refusals, wanted.start, wanted.end, _latest(waits, wanted, refusals))


def _check_join(
    parts: Parts,
    context: 'RequestContext',
    present: model.Lease,
    wanted: request.Wanted,
    missing: Sequence[model.Reservation],
    refusals: Refusals,
) -> None:
    with refusals.noted():
        create.check_same(context, present, wanted)
        if missing:
            after = changes.add_reservations.apply(present, missing, missing[0].created_at).lease
            admission.check(parts, after, present)


def _latest(
    waits: Sequence[datetime.datetime | None], wanted: request.Wanted, refusals: Refusals
) -> datetime.datetime | None:
    """Say when all that is refused is over, if it is known of each and the request allows it."""
    known = [each for each in waits if each is not None]
    if not known or len(known) < len(refusals.found):
        return None
    latest = max(known)
    return None if wanted.lasts is None and latest >= wanted.end else latest


def _free_from(
    parts: Parts,
    context: 'RequestContext',
    key: holders.Key,
    holder: model.Lease,
    now: datetime.datetime,
) -> datetime.datetime | None:
    """Say when a resource can be reserved anew; None if never, or if that is not to be told."""
    if holder.project_id != context.project_id or not parts.plugins[key[0]].reusable:
        return None
    return max(now, holder.end_date)


def _answer(
    refusals: Refusals,
    start: datetime.datetime,
    end: datetime.datetime,
    available: datetime.datetime | None = None,
) -> dict[str, Any]:
    return {
        'granted': not refusals.found,
        'refusals': [each.body for each in refusals.found],
        'available_from': dates.serialize(available),
        'start_date': dates.serialize(start),
        'end_date': dates.serialize(end),
    }
