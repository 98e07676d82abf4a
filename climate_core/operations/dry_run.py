# SPDX-License-Identifier: Apache-2.0
"""Dry run: tell whether a request for a lease would be granted. Nothing is written."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from climate_common import dates
from climate_core import exceptions
from climate_core.context import RequestContext
from climate_core.db import leases
from climate_core.lease import states
from climate_core.lease.errors import ErrorCollector
from climate_core.operations import forecasting
from climate_core.operations.build import Builder
from climate_core.operations.draft import Draft
from climate_core.operations.duplicates import check_free, equal_holder
from climate_core.operations.persist import WritePath
from climate_core.operations.quota import Quota
from climate_hosts.operations.making_room import RoomMaker


def check(
    builder: Builder,
    path: WritePath,
    context: RequestContext,
    values: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what would become of a create.

    :returns: ``granted``; ``waits``, whether the lease would be made and wait until it is;
        ``refusals``, all that can be found, as the API answers errors;
        ``available_from``, the earliest start from which on the same request would be granted, if
        waiting helps and that is known; ``start_date`` and ``end_date``
    :raises climate_core.exceptions.BadRequest: the start or the end has no meaning
    :raises climate_core.exceptions.ServiceUnavailable: a service that must be asked does not
        answer
    """
    errors = ErrorCollector()
    draft = builder.build_lease(context, values, errors)
    if draft.before is None:
        with errors.collected():
            path.provisioner.trusts.check(context)
    held = builder.database.read(
        leases.find_holders, [each.reservation.key for each in draft.items]
    )
    waits: list[datetime | None] = []
    if equal_holder(context, draft, held) is None:
        path.preemption.check(draft, errors)
        check_free(context, draft, held, errors)
        for (kind, _), holder in held.items():
            own = holder.project_id == context.project_id
            free = own and builder.plugins[kind].reusable
            waits.append(max(draft.now, holder.end_date) if free else None)
        waits += _check_quota(path.quota, draft, errors)
        known = len(errors.found)
        path.promises.check(draft, errors)
        preempted = path.preemption.find(draft) if errors.found[known:] else None
        if preempted is not None:
            del errors.found[known:]
            draft = preempted
        expected = len(errors.found)
        forecasting.admit(builder.database, path.room.cloud, context, draft, errors)
        forecasting.expect_now(builder.database, path.room.cloud, draft, errors)
        if any(isinstance(each, exceptions.NotEnough) for each in errors.found[expected:]):
            draft = _preempting(path, draft, errors, expected)
        waits += [_available_from(each, draft) for each in errors.found[known:]]
    asked, lease = draft.asked, draft.lease
    start, end = lease.start_date, lease.end_date
    if asked is not None and not draft.preempted:
        start, end = asked.start, asked.end
    return {
        'granted': not errors.found,
        'waits': bool(draft.waits) or _waits(path.room, draft, errors),
        'refusals': [each.body for each in errors.found],
        'available_from': dates.serialize(_latest(waits, draft, errors)),
        'start_date': dates.serialize(start),
        'end_date': dates.serialize(end),
    }


def _preempting(path: WritePath, draft: Draft, errors: ErrorCollector, known: int) -> Draft:
    """Return a draft with the leases of servers that would give way; it is granted then.

    :param known: how many errors others than these there are
    """
    if draft.lease.kind == states.LeaseKind.RETRY:
        return draft
    found = path.preemption.find_servers(draft)
    if found is None:
        return draft
    del errors.found[known:]
    return found


def _waits(room: RoomMaker, draft: Draft, errors: ErrorCollector) -> bool:
    """Tell whether a lease would wait that is not granted; say why hosts cannot be emptied."""
    lacking = [each for each in errors.found if isinstance(each, exceptions.NotEnough)]
    if not lacking or len(lacking) < len(errors.found):
        return False
    if draft.lease.kind == states.LeaseKind.BEST_EFFORT:
        try:
            return bool(room.find(draft, lacking[0]))
        except exceptions.NotEnough as exc:
            errors.found[:] = [exc]
    return draft.lease.kind == states.LeaseKind.RETRY


def _available_from(error: exceptions.ClimateError, draft: Draft) -> datetime | None:
    later = error.available_from if isinstance(error, exceptions.NotEnough) else None
    return None if later is None else dates.parse(later, draft.now)


def _check_quota(quota: Quota, draft: Draft, errors: ErrorCollector) -> list[datetime | None]:
    """Check the limits and the external service; return when exceeded limits allow the lease."""
    if draft.before is not None and not draft.items:
        return []
    known = len(errors.found)
    quota.check_quota(draft.lease, draft.now, draft.before, errors)
    exceeded = any(isinstance(each, exceptions.LimitExceeded) for each in errors.found[known:])
    if not exceeded or draft.before is not None:
        return []
    return [quota.available_from(draft.lease, draft.now)]


def _latest(waits: list[datetime | None], draft: Draft, errors: ErrorCollector) -> datetime | None:
    """Return when all that is refused is over, if that is known and the request allows it."""
    known = [each for each in waits if each is not None]
    if not known or len(known) < len(errors.found) or draft.asked is None:
        return None
    latest = max(known)
    return None if draft.asked.lasts is None and latest >= draft.asked.end else latest
