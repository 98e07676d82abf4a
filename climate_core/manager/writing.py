# SPDX-License-Identifier: Apache-2.0
"""Write a lease that is granted: its trust and what is made for it first, then the lease."""

import dataclasses
import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oslo_log import log
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import leases, store
from climate_core.db import limits as db_limits
from climate_core.db.engine import TROUBLE, Stale
from climate_core.lease import events, history, limits, model
from climate_core.manager import admission, draft, making
from climate_core.manager.parts import Parts, asked

if TYPE_CHECKING:
    from climate_core.context import RequestContext

LOG = log.getLogger(__name__)

#: After these the lease may be there. Also after a refusal: an attempt that follows a lost
#: connection counts what the one before it wrote.
MAYBE_WRITTEN: tuple[type[Exception], ...] = (exceptions.ClimateError, Stale, *TROUBLE)


def write(
    parts: Parts,
    context: 'RequestContext',
    new: draft.Draft,
    most: limits.Amounts | None,
    now: datetime.datetime,
    values: Mapping[str, Any],
) -> None:
    """Write a lease with a trust of its owner and with what is made for it; or nothing of it.

    :param most: the limits of the project; None: none
    :param values: the request that it comes from
    :raises climate_core.exceptions.ClimateError: it is refused
    :raises oslo_db.exception.DBDuplicateEntry: its id, or what it reserves, is taken
    """
    trust_id = parts.trusts.create(context)
    lease = dataclasses.replace(new.lease, trust_id=trust_id)
    try:
        made = making.of_draft(parts, context, new, values)
    except BaseException:
        _forget_trust(parts, trust_id)
        raise
    lease = events.prepare.add(
        dataclasses.replace(lease, reservations=made.reservations), made.preparing, now
    )
    try:
        parts.database.write(_insert, lease, most, now, asked(context, 'lease.create'))
    except MAYBE_WRITTEN:
        if not _was_written(parts, lease.id, trust_id):
            making.discard(parts, made.new)
            raise


def _insert(
    session: orm.Session,
    lease: model.Lease,
    most: limits.Amounts | None,
    now: datetime.datetime,
    cause: history.Cause,
) -> None:
    db_limits.lock(session, lease.project_id, most)
    db_limits.check(session, lease.project_id, admission.added(lease), most)
    store.create(session, lease, now, cause)


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


def _forget_trust(parts: Parts, trust_id: str) -> None:
    try:
        parts.trusts.delete(trust_id)
    except (exceptions.Transient, exceptions.Permanent, exceptions.ClimateError):
        LOG.warning('The trust %s of a lease that was not made stays', trust_id, exc_info=True)
