# SPDX-License-Identifier: Apache-2.0
"""Trusts that leases of one owner share: taken while they are live, then retired, then deleted.

A trust has a row here from the transaction that writes its first lease on. No row counts its
leases, and a create changes none but its own: any number of creates of one owner at once do not
wait for each other, on a Galera cluster neither. Two that find no live trust each make one; the
newest is taken from then on, and each is deleted when its own leases are over.

A lease needs its trust until it is TERMINATED. What no lease needs is *retired*: one guarded
UPDATE, after which no create takes it. Keystone is asked to delete it :data:`GRACE_SECONDS` later,
after another look. The two moves are apart because of the create that is between its look at the
trust and its commit at this moment: the look is part of the statement that writes the lease, so
the create commits soon after, and the second look finds the lease. Such a trust stays retired and
goes with that lease. A trust that is retired is never live again, so nothing has to be undone when
a manager dies between two moves: the next look of any manager goes on.
"""

from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import rows, tables, utcnow
from climate_core.lease import states
from climate_core.lease.trust_scope import TrustScope

_TRUST, _LEASE = tables.OWNER_TRUSTS, tables.LEASES

#: Seconds from retiring a trust until it is deleted. The only thing that may still take it is a
#: transaction that had begun, or that read a node of a cluster which lagged behind.
GRACE_SECONDS: Final = 600.0


class Retired(Exception):
    """The trust was retired since it was found, so no lease may be written with it."""


class Use(NamedTuple):
    """How a trust is used.

    :param shared: whether it has a row here
    :param needed: whether a lease needs it that is not over
    """

    shared: bool
    needed: bool


def insert(session: orm.Session, trust_id: str, scope: TrustScope) -> None:
    """Write a new trust that others may take, with its first lease."""
    row = {
        'trust_id': trust_id,
        'digest': scope.digest,
        'user_id': scope.user_id,
        'project_id': scope.project_id,
        'roles': list(scope.roles),
        'created_at': utcnow.now(session),
        'retired_at': None,
    }
    session.connection().execute(sa.insert(_TRUST).values(row))


def find_live(session: orm.Session, scope: TrustScope) -> str | None:
    """Return the id of the newest live trust of a scope."""
    query = sa.select(_TRUST.c.trust_id).where(
        _TRUST.c.digest == scope.digest, _TRUST.c.retired_at.is_(None)
    )
    newest_first = query.order_by(_TRUST.c.created_at.desc(), _TRUST.c.trust_id)
    return session.scalars(newest_first.limit(1)).first()


def if_live(
    trust_id: sa.ColumnElement[Any], values: Iterable[sa.ColumnElement[Any]]
) -> sa.Select[Any]:
    """Select these values, once if a trust may be taken, and not at all if it may not."""
    query = sa.select(*values).select_from(_TRUST)
    return query.where(_TRUST.c.trust_id == trust_id, _TRUST.c.retired_at.is_(None))


def use(session: orm.Session, trust_id: str) -> Use:
    """Return how a trust is used, in one statement."""
    shared = sa.select(_TRUST.c.trust_id).where(_TRUST.c.trust_id == trust_id).exists()
    (row,) = session.execute(sa.select(shared, _needed(trust_id)))
    return Use(*map(bool, row))


def retire(session: orm.Session, ids: Collection[str]) -> int:
    """Let no create take these any more; return how many of them were live."""
    statement = sa.update(_TRUST).where(_TRUST.c.trust_id.in_(ids), _TRUST.c.retired_at.is_(None))
    return rows.change(session, statement.values(retired_at=utcnow.now(session)))


def unneeded(session: orm.Session) -> tuple[list[str], list[str]]:
    """Return the ids of trusts that no lease needs: those that are live, and those to delete."""
    old = _TRUST.c.retired_at <= utcnow.now(session, -GRACE_SECONDS)
    query = sa.select(_TRUST.c.trust_id, _TRUST.c.retired_at.is_(None)).where(
        sa.or_(_TRUST.c.retired_at.is_(None), old), ~_needed(_TRUST.c.trust_id)
    )
    found = session.execute(query.order_by(_TRUST.c.trust_id)).all()
    return [name for name, live in found if live], [name for name, live in found if not live]


def is_unneeded(session: orm.Session, trust_id: str) -> bool:
    """Tell whether still no lease needs a trust."""
    return not session.scalar(sa.select(_needed(trust_id)))


def delete(session: orm.Session, trust_id: str) -> None:
    """Forget a trust that is no more."""
    rows.change(session, sa.delete(_TRUST).where(_TRUST.c.trust_id == trust_id))


def _needed(trust_id: Any) -> sa.ColumnElement[bool]:
    over = states.LeaseStatus.TERMINATED
    query = sa.select(_LEASE.c.id).where(_LEASE.c.trust_id == trust_id, _LEASE.c.status != over)
    return query.exists()
