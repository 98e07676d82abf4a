# SPDX-License-Identifier: Apache-2.0
"""Find the trust of a new lease: one that leases of its owner share, or a new one.

Only a request with the user's own token shares. A token that was delegated itself (a trust, an
application credential, OAuth) must not gain through a trust that the user made with more rights,
so Keystone judges each time what such a token may delegate: it makes a trust for this lease alone.

What is found is kept in memory for :data:`_KNOWN_SECONDS`, after Keystone was asked whether it
gives a token for it: the owner may be disabled, or the trust deleted by an administrator. That is
as long as keystonemiddleware believes in the token of a request without asking, so a lease is
created for no longer after a right was taken away than any service answers the user. Between two
such questions a create asks Keystone nothing. Memory decides nothing: the statement that writes
the lease looks whether its trust is live, see :mod:`climate_core.db.owner_trusts`.

A manager of a release that did not share deletes the trust of a lease that is over, whoever shares
it. So nothing is shared until the database was contracted for the first time since: then no such
manager runs any more.
"""

import dataclasses
from typing import Final

from oslo_db import exception as db_exc
from sqlalchemy import orm

from climate_core.cloud import errors
from climate_core.cloud.auth import RecentCache
from climate_core.context import RequestContext
from climate_core.db import migration
from climate_core.db import owner_trusts as db
from climate_core.db.engine import Database, after_commit
from climate_core.lease import model
from climate_core.lease.trust_scope import TrustScope
from climate_core.operations.interfaces import TrustService

#: The migration of the first contraction since leases share trusts.
_CONTRACTED: Final = '0041'

#: Keystonemiddleware's ``token_cache_time``.
_KNOWN_SECONDS: Final = 300.0

#: How many trusts of an owner a create asks Keystone about before it makes one.
_TRIES: Final = 3


class _NotFound(Exception):
    """There is no live trust of this scope."""


@dataclasses.dataclass(frozen=True, slots=True)
class OwnerTrust:
    """The trust of a new lease.

    :param scope: by which others find it; None: it is of this lease alone
    :param is_new: whether it was made for this lease
    """

    id: str
    scope: TrustScope | None = None
    is_new: bool = True


class OwnerTrusts:
    """Find or make the trusts of new leases, and let go of those that leases leave.

    :param size: of how many owners the trust is kept in memory
    """

    def __init__(self, database: Database, trusts: TrustService, size: int) -> None:
        self._database = database
        self._trusts = trusts
        self._known: RecentCache[str] = RecentCache(size, _KNOWN_SECONDS)
        self._contracted = False

    def take(self, context: RequestContext) -> OwnerTrust:
        """Return a live trust of the user, project and roles of a request, or make one.

        :raises climate_core.exceptions.Forbidden: Keystone does not let this token delegate
        :raises climate_core.exceptions.ServiceUnavailable: Keystone does not answer
        """
        scope = self._trusts.scope(context)
        if scope is None:
            return OwnerTrust(self._trusts.create(context))
        try:
            found = self._known.get(scope.digest, lambda: self._find(scope))
        except _NotFound:
            shared = scope if self._may_share() else None
            return OwnerTrust(self._trusts.create(context, scope.roles), shared)
        return OwnerTrust(found, scope, is_new=False)

    def replace(self, context: RequestContext, trust: OwnerTrust) -> OwnerTrust:
        """Return another trust for one that was retired since it was taken."""
        assert trust.scope is not None  # nosec B101 # for mypy: it holds already
        self._known.drop(trust.scope.digest)
        return self.take(context)

    def keep(self, session: orm.Session, trust: OwnerTrust) -> None:
        """Let later leases share a new trust, from the commit of its first lease on."""
        if trust.is_new and trust.scope is not None:
            digest = trust.scope.digest
            db.insert(session, trust.id, trust.scope)
            after_commit(session, lambda: self._known.put(digest, trust.id))

    def release(self, lease: model.Lease) -> None:
        """Let go of the trust of a lease that is over: keep a shared one a while, delete another.

        Nothing happens while another lease needs it. Of two leases that are over at the same time
        the second sees that the first one is over: each looks after its own commit. If a node of
        a cluster lags behind and neither sees it, the comparison with the cloud does: it looks
        for trusts that no lease needs.

        Such a node may not say either that a trust is shared. So one that seems not to be is
        written first, as retired: that fails if another lease may have it.

        :raises climate_core.exceptions.Transient: try again later
        :raises climate_core.exceptions.Permanent: Keystone does not let the service delete it
        """
        trust_id = lease.trust_id
        if trust_id is None:
            return
        use = self._database.read(db.use, trust_id)
        shared = use.shared or not (use.known or self._retire_alone(trust_id, lease))
        if use.needed:
            return
        if shared:
            self._database.write(db.leave, trust_id)
            return
        self._trusts.delete(trust_id)
        self._database.write(db.delete, trust_id)

    def _retire_alone(self, trust_id: str, lease: model.Lease) -> bool:
        """Write a trust as that of one lease alone; tell whether it is so."""
        try:
            self._database.write(db.insert_alone, trust_id, lease.user_id, lease.project_id)
        except db_exc.DBDuplicateEntry:
            return False
        return True

    def _find(self, scope: TrustScope) -> str:
        """Return a live trust that Keystone gives a token for; retire those that it refuses."""
        for _ in range(_TRIES):
            found = self._database.read(db.find_live, scope)
            if found is None:
                break
            with errors.for_user():
                try:
                    self._trusts.roles(found)
                except errors.TrustRefused:
                    self._database.write(db.retire, [found])
                    continue
            return found
        # Those that were refused may still look live on a node that lags behind: make one.
        raise _NotFound

    def _may_share(self) -> bool:
        self._contracted = self._contracted or migration.is_at(self._database, _CONTRACTED)
        return self._contracted
