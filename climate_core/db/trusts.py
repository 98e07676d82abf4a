# SPDX-License-Identifier: Apache-2.0
"""Trusts that leases of one owner share: used while live, then retired, then deleted.

A trust has a row here from the transaction that writes its first lease on. No row counts its
leases, and a create changes only its own row: concurrent creates of one owner do not block each
other, also on a Galera cluster. Two creates that find no live trust create one each; the newest is
used from then on, and each is deleted when its own leases have ended.

A lease needs its trust until it is TERMINATED. A trust that no lease needs is retained for
:data:`RETAIN_SECONDS`, so that leases of one owner that follow one another share it as well; then
it is *retired*: one guarded UPDATE, after which no create takes it. Climate deletes it in Keystone
:data:`GRACE_SECONDS` later, after another check. The two steps are separate because of a create
that has checked the trust and not committed yet: the check is part of the statement that writes
the lease, so the create commits soon after, and the second check finds the lease. Such a trust
stays retired and is deleted with that lease. A retired trust is never live again, so nothing has
to be undone when a manager dies between two steps: the next check of any manager continues.

A *stray* trust is delegated to the service user, and no lease and no feed has it.
"""

import dataclasses
import hashlib
import json
from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import sql, tables
from climate_core.db.tables import LEASES, OWNER_TRUSTS
from climate_core.lease import states

#: The digest of what no other lease may share.
_UNSHARED: Final = ''

#: Seconds from retiring a trust until it is deleted. The only thing that may still take it is a
#: transaction that had begun, or that read a node of a cluster which lagged behind.
GRACE_SECONDS: Final = 600.0

#: Seconds for which a trust that no lease needs may still be taken.
RETAIN_SECONDS: Final = 3600.0

#: Seconds until a rejected deletion in Keystone is retried: after the first rejection, twice as
#: many after each further rejection, and at most.
_MIN_RETRY_SECONDS, _MAX_RETRY_SECONDS = 1200.0, 86400.0


#: Locks trusts as the statement does that writes a single lease. Built once.
_LOCK_LIVE: Final = (
    sa.select(OWNER_TRUSTS.c.trust_id)
    .where(
        OWNER_TRUSTS.c.trust_id.in_(sa.bindparam('wanted', expanding=True)),
        OWNER_TRUSTS.c.retired_at.is_(None),
    )
    .order_by(OWNER_TRUSTS.c.trust_id)
    .with_for_update(read=True)
)


@dataclasses.dataclass(frozen=True, slots=True)
class TrustScope:
    """The rights that a trust delegates; leases of one owner with the same scope can share it.

    :param user_id: the owner, who delegates
    :param project_id: the project of the roles
    :param trustee_id: the service user that the roles are delegated to
    :param roles: the names of the roles, sorted
    """

    user_id: str
    project_id: str
    trustee_id: str
    roles: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Return 64 hexadecimal digits that identify the scope."""
        text = json.dumps([self.user_id, self.project_id, self.trustee_id, *self.roles])
        return hashlib.sha256(text.encode()).hexdigest()


class TrustRetired(Exception):
    """The trust was retired concurrently, so no lease may be written with it."""


class TrustUse(NamedTuple):
    """How a trust is used.

    :param known: whether it has a row
    :param shared: whether new leases find it
    :param needed: whether a lease that has not ended needs it
    """

    known: bool
    shared: bool
    needed: bool


def insert(session: orm.Session, trust_id: str, scope: TrustScope) -> None:
    """Write a new trust that other leases may share, with its first lease."""
    row = {
        'trust_id': trust_id,
        'digest': scope.digest,
        'user_id': scope.user_id,
        'project_id': scope.project_id,
        'roles': list(scope.roles),
        'created_at': sql.now(session),
        'retired_at': None,
        'attempts': 0,
    }
    session.connection().execute(sa.insert(OWNER_TRUSTS).values(row))


def find_live(session: orm.Session, scope: TrustScope) -> str | None:
    """Return the id of the newest live trust of a scope."""
    query = sa.select(OWNER_TRUSTS.c.trust_id).where(
        OWNER_TRUSTS.c.digest == scope.digest, OWNER_TRUSTS.c.retired_at.is_(None)
    )
    newest_first = query.order_by(OWNER_TRUSTS.c.created_at.desc(), OWNER_TRUSTS.c.trust_id)
    return session.scalars(newest_first.limit(1)).first()


def select_if_live(
    trust_id: sa.ColumnElement[Any], values: Iterable[sa.ColumnElement[Any]]
) -> sa.Select[Any]:
    """Select these values, once if a trust may be taken, and not at all if it may not."""
    query = sa.select(*values).select_from(OWNER_TRUSTS)
    return query.where(OWNER_TRUSTS.c.trust_id == trust_id, OWNER_TRUSTS.c.retired_at.is_(None))


def lock_live(session: orm.Session, ids: Collection[str]) -> set[str]:
    """Return which of these trusts stay live until the end of the transaction."""
    if not ids:
        return set()
    wanted = {'wanted': sorted(ids)}
    return set(session.connection().execute(_LOCK_LIVE, wanted).scalars())


def read_use(session: orm.Session, trust_id: str) -> TrustUse:
    """Return how a trust is used, in one statement."""
    known = sa.select(OWNER_TRUSTS.c.trust_id).where(OWNER_TRUSTS.c.trust_id == trust_id)
    shared = known.where(OWNER_TRUSTS.c.digest != _UNSHARED)
    (row,) = session.execute(sa.select(known.exists(), shared.exists(), _is_needed(trust_id)))
    return TrustUse(*map(bool, row))


def retain(session: orm.Session, trust_id: str) -> None:
    """Retain a live trust that its last lease has left."""
    statement = sa.update(OWNER_TRUSTS).where(
        OWNER_TRUSTS.c.trust_id == trust_id, OWNER_TRUSTS.c.retired_at.is_(None)
    )
    sql.change(session, statement.values(next_at=sql.now(session, RETAIN_SECONDS)))


def insert_unshared(session: orm.Session, trust_id: str, user_id: str, project_id: str) -> None:
    """Write the trust of a single lease as retired: it is deleted now, or else later.

    :raises oslo_db.exception.DBDuplicateEntry: it is shared, which was not visible before
    """
    now = sql.now(session)
    owner = {'user_id': user_id, 'project_id': project_id, 'roles': [], 'digest': _UNSHARED}
    values = {'trust_id': trust_id, 'created_at': now, 'retired_at': now, 'attempts': 0}
    session.connection().execute(sa.insert(OWNER_TRUSTS).values(**owner, **values))


def count_rejection(session: orm.Session, trust_id: str) -> int:
    """Count that Keystone has rejected the deletion of a trust; return the count."""
    this = OWNER_TRUSTS.c.trust_id == trust_id
    count = int(session.scalar(sa.select(OWNER_TRUSTS.c.attempts).where(this)) or 0) + 1
    seconds = min(_MIN_RETRY_SECONDS * 2 ** min(count - 1, 10), _MAX_RETRY_SECONDS)
    values = {'attempts': count, 'next_at': sql.now(session, seconds)}
    sql.change(session, sa.update(OWNER_TRUSTS).where(this).values(values))
    return count


def find_rejected(session: orm.Session) -> list[str]:
    """Return the ids of trusts whose deletion Keystone has rejected and that no lease needs."""
    query = sa.select(OWNER_TRUSTS.c.trust_id).where(
        OWNER_TRUSTS.c.attempts > 0, ~_is_needed(OWNER_TRUSTS.c.trust_id)
    )
    return list(session.scalars(query.order_by(OWNER_TRUSTS.c.trust_id)))


def retire(session: orm.Session, ids: Collection[str]) -> int:
    """Retire trusts, so that no create takes them; return how many of them were live."""
    statement = sa.update(OWNER_TRUSTS).where(
        OWNER_TRUSTS.c.trust_id.in_(ids), OWNER_TRUSTS.c.retired_at.is_(None)
    )
    return sql.change(session, statement.values(retired_at=sql.now(session), next_at=None))


def find_unneeded(session: orm.Session) -> tuple[list[str], list[str]]:
    """Return the ids of trusts that no lease needs: those to retire, and those to delete."""
    due = sa.or_(OWNER_TRUSTS.c.next_at.is_(None), OWNER_TRUSTS.c.next_at <= sql.now(session))
    old = OWNER_TRUSTS.c.retired_at <= sql.now(session, -GRACE_SECONDS)
    query = sa.select(OWNER_TRUSTS.c.trust_id, OWNER_TRUSTS.c.retired_at.is_(None)).where(
        sa.or_(OWNER_TRUSTS.c.retired_at.is_(None), old), due, ~_is_needed(OWNER_TRUSTS.c.trust_id)
    )
    found = session.execute(query.order_by(OWNER_TRUSTS.c.trust_id)).all()
    return [name for name, live in found if live], [name for name, live in found if not live]


def is_unneeded(session: orm.Session, trust_id: str) -> bool:
    """Return whether no lease needs a trust."""
    return not session.scalar(sa.select(_is_needed(trust_id)))


def delete(session: orm.Session, trust_id: str) -> None:
    """Delete the row of a trust that was deleted in Keystone."""
    sql.change(session, sa.delete(OWNER_TRUSTS).where(OWNER_TRUSTS.c.trust_id == trust_id))


def _is_needed(trust_id: Any) -> sa.ColumnElement[bool]:
    over = states.LeaseStatus.TERMINATED
    query = sa.select(LEASES.c.id).where(LEASES.c.trust_id == trust_id, LEASES.c.status != over)
    return query.exists()


def find_used(session: orm.Session) -> set[str]:
    """Return the ids of all trusts that leases and feeds still have, or that leases share.

    Of what leases share that is deleted which no lease needs, see ``cleanup.find_retired_trusts``.
    """
    lease, feed = tables.LEASES.c.trust_id, tables.FEEDS.c.trust_id
    query = sa.union_all(
        sa.select(lease).where(lease.is_not(None)),
        sa.select(feed),
        sa.select(tables.OWNER_TRUSTS.c.trust_id),
    )
    return set(session.scalars(query))


def note_stray(session: orm.Session, mine: Collection[str], seconds: float) -> list[str]:
    """Record the trusts that no lease and no feed has, and remove the records of the others.

    Keystone does not report the age of a trust, and a lease is written after its trust is created.

    :param mine: the ids of all trusts that are delegated to the service user
    :returns: the ids of those that were noted at least this number of seconds ago
    :raises oslo_db.exception.DBDuplicateEntry: another manager notes the same ones now
    """
    table = tables.STRAY_TRUSTS
    stray = set(mine) - find_used(session)
    noted = set(session.scalars(sa.select(table.c.id)))
    if found := noted - stray:
        sql.change(session, sa.delete(table).where(table.c.id.in_(found)))
    new = [{'id': each, 'since': sql.read_time(session)} for each in stray - noted]
    sql.insert(session, table, new)
    old = sa.select(table.c.id).where(table.c.since <= sql.now(session, -seconds))
    return sorted(session.scalars(old))
