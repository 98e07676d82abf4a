# SPDX-License-Identifier: Apache-2.0
"""May this lease be made, changed or enlarged? Asked before anything is written.

Three judges, the cheap one first: how long and how far ahead, the limits of the project, and the
service of the operator's own. What a project holds is counted once more in the transaction that
writes, see :mod:`climate_core.db.limits`: that count is the last judge.

With nothing of section ``[limits]`` turned on it costs neither a statement nor a request.
"""

import dataclasses
import datetime

from climate_core import exceptions
from climate_core.db import limits as db
from climate_core.lease import events, limits, model
from climate_core.lease.refusals import AT_ONCE, Refusals
from climate_core.manager.parts import Parts


def check(
    parts: Parts, lease: model.Lease, before: model.Lease | None = None
) -> limits.Amounts | None:
    """Refuse what may not be.

    :param lease: the lease as it shall be
    :param before: the lease as it is; None for a new one
    :returns: the limits of the project, for the transaction that writes; None: none
    :raises climate_core.exceptions.Forbidden: it is too long, too far ahead, over a limit, or not
        permitted by the external service
    :raises climate_core.exceptions.ServiceUnavailable: who must be asked does not answer
    """
    check_time(parts, lease, parts.clock.now(), before)
    most = _check_limits(parts, lease, before)
    _ask(parts, lease, before)
    return most


def refusals(
    parts: Parts, lease: model.Lease
) -> tuple[list[exceptions.ClimateError], datetime.datetime | None]:
    """Say all that would be refused of a new lease; nothing is written.

    :returns: the refusals, and when it would fit into the limits, if that is what is wrong and
        the ends of other leases make room
    """
    now = parts.clock.now()
    refused = Refusals(collect=True)
    check_time(parts, lease, now, refusals=refused)
    available_from = None
    try:
        _check_limits(parts, lease, None)
    except exceptions.LimitExceeded as exc:
        refused.add(exc)
        available_from = _available_from(parts, lease, now)
    with refused.noted():
        _ask(parts, lease, None)
    return refused.found, available_from


def check_time(
    parts: Parts,
    lease: model.Lease,
    now: datetime.datetime,
    before: model.Lease | None = None,
    refusals: Refusals = AT_ONCE,
) -> None:
    """Refuse a lease that is too long or too far ahead. Pure: it may be called while writing.

    A change that makes it neither longer nor later is fine, whatever the operator allows by now.

    :param refusals: takes what is refused
    :raises climate_core.exceptions.LeaseTooLong: too long
    :raises climate_core.exceptions.LeaseTooFarAhead: too far ahead
    """
    section = parts.conf.limits
    if lease.project_id in section.exempt_projects:
        return
    length = lease.end_date - lease.start_date
    if before is None or length > before.end_date - before.start_date:
        with refusals.noted():
            limits.check_length(lease.start_date, lease.end_date, section.max_lease_seconds)
    if before is None or lease.start_date > before.start_date:
        with refusals.noted():
            limits.check_ahead(lease.start_date, now, section.max_ahead_seconds)


def added(lease: model.Lease, before: model.Lease | None = None) -> limits.Amounts:
    """Return what a lease adds to what its project holds, by the names of the limits."""
    if before is None:
        return limits.amounts(lease.live, leases=1)
    known = {each.id for each in before.reservations}
    return limits.amounts([each for each in lease.live if each.id not in known])


def with_end(parts: Parts, lease: model.Lease, now: datetime.datetime) -> model.Lease:
    """Return a new lease with what tells the external service of its end, if it wants to know."""
    if not parts.external.on_end:
        return lease
    return dataclasses.replace(
        lease, events=(*lease.events, events.external_end.waiting(lease.id, now))
    )


def _check_limits(
    parts: Parts, lease: model.Lease, before: model.Lease | None
) -> limits.Amounts | None:
    adding = added(lease, before)
    if not parts.conf.limits.enabled or not any(adding.values()):
        return None
    most = parts.limits.of(lease.project_id)
    # Not the last word, but it spares a trust and a question to the external service.
    limits.check(most, parts.database.read(db.used, lease.project_id), adding)
    return most


def _available_from(
    parts: Parts, lease: model.Lease, now: datetime.datetime
) -> datetime.datetime | None:
    held = parts.database.read(db.held, lease.project_id)
    return limits.available_from(parts.limits.of(lease.project_id), added(lease), held, now)


def asks(parts: Parts, lease: model.Lease, before: model.Lease | None = None) -> bool:
    """Tell whether the external service is asked about this lease, or this change of it."""
    if before is None:
        return parts.external.on_create
    times = (before.start_date, before.end_date) != (lease.start_date, lease.end_date)
    joined = len(lease.reservations) > len(before.reservations)
    return parts.external.on_update and (times or joined)


def _ask(parts: Parts, lease: model.Lease, before: model.Lease | None) -> None:
    if not asks(parts, lease, before):
        return
    if before is None:
        parts.external.check_create(lease)
    else:
        parts.external.check_update(before, lease)
