# SPDX-License-Identifier: Apache-2.0
"""Write new leases: those that a project creates at once in one transaction.

Each of them is granted or refused alone, and written with all of its own or not at all. They come
one after the other to the limits of their project in any case, and need its count only once.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import limits as db_limits
from climate_core.db import owner_trusts as db_trusts
from climate_core.db import store
from climate_core.db.engine import Database
from climate_core.db.groups import Groups, Outcome
from climate_core.lease import limits, model
from climate_core.lease.history import Cause
from climate_core.operations.draft import Draft
from climate_core.operations.owner_trusts import OwnerTrusts
from climate_core.operations.provision import Provisioned
from climate_core.operations.quota import Quota

#: The most leases of one transaction: the others of the project wait for its commit.
_MOST: Final = 32


class Writing(NamedTuple):
    """Hold what the transaction of a request writes, and by what it is judged.

    :param most: the limits of the project; None: none
    """

    draft: Draft
    done: Provisioned
    most: limits.Amounts | None
    cause: Cause


class NewLeases:
    """Write new leases that ask nothing of the calendar, see :func:`is_plain`.

    :param write_one: writes a lease in a transaction: ``write_one(session, writing)``
    """

    def __init__(
        self,
        database: Database,
        owner_trusts: OwnerTrusts,
        quota: Quota,
        write_one: Callable[[orm.Session, Writing], model.Lease],
    ) -> None:
        self._owner_trusts, self._quota = owner_trusts, quota
        self.groups = Groups[Writing, model.Lease](
            database,
            write_one,
            self._write_all,
            lambda each: each.draft.lease.id,
            _MOST,
            line=lambda each: each.draft.lease.project_id,
        )

    def write(self, writing: Writing) -> model.Lease:
        """Write a new lease, perhaps with others of its project; raises as ``write_one``."""
        try:
            return self.groups.write(writing)
        except exceptions.LimitExceeded:
            # The limits that it was written with may have been raised meanwhile.
            most = self._quota.check_limits(writing.draft.lease, None)
            return self.groups.write(writing._replace(most=most))

    def _write_all(
        self, session: orm.Session, group: Sequence[Writing]
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
                used = _check(each, lease, used, live)
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


def is_plain(draft: Draft) -> bool:
    """Return whether a draft is a new lease for which nothing but its own rows is written."""
    return (
        draft.before is None
        and not (draft.waits or draft.emptied or draft.preempted)
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


def _trust_id(writing: Writing) -> str:
    assert writing.done.trust is not None  # nosec B101 # for mypy: it holds already
    return writing.done.trust.id


def _check(
    writing: Writing, lease: model.Lease, used: limits.Amounts, live: set[str]
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
