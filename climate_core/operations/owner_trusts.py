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

A manager of the release before deletes the trust of a lease that is over, whoever shares it. So
nothing is shared until the database is contracted: it is when no such manager runs any more.
"""

import dataclasses
from typing import Final

from sqlalchemy import orm

from climate_core.cloud import errors
from climate_core.cloud.auth import RecentCache
from climate_core.context import RequestContext
from climate_core.db import migration
from climate_core.db import owner_trusts as db
from climate_core.db.engine import Database, after_commit
from climate_core.lease.trust_scope import TrustScope
from climate_core.operations.interfaces import TrustService

#: Keystonemiddleware's ``token_cache_time``.
_KNOWN_SECONDS: Final = 300.0


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
        assert trust.scope is not None
        self._known.drop(trust.scope.digest)
        return self.take(context)

    def keep(self, session: orm.Session, trust: OwnerTrust) -> None:
        """Let later leases share a new trust, from the commit of its first lease on."""
        if trust.is_new and trust.scope is not None:
            digest = trust.scope.digest
            db.insert(session, trust.id, trust.scope)
            after_commit(session, lambda: self._known.put(digest, trust.id))

    def release(self, trust_id: str) -> None:
        """Let go of the trust of a lease that is over: retire one that was shared, delete another.

        Nothing happens while another lease needs it. Of two leases that are over at the same time
        the second sees that the first one is over: each looks after its own commit. If a node of
        a cluster lags behind and neither sees it, the comparison with the cloud does: it looks
        for trusts that no lease needs.

        :raises climate_core.exceptions.Transient: try again later
        :raises climate_core.exceptions.Permanent: Keystone does not let the service delete it
        """
        use = self._database.read(db.use, trust_id)
        if use.needed:
            return
        if use.shared:
            self._database.write(db.retire, [trust_id])
        else:
            self._trusts.delete(trust_id)

    def _find(self, scope: TrustScope) -> str:
        """Return a live trust that Keystone gives a token for; retire those that it refuses."""
        while (found := self._database.read(db.find_live, scope)) is not None:
            with errors.for_user():
                try:
                    self._trusts.roles(found)
                except errors.TrustRefused:
                    self._database.write(db.retire, [found])
                    continue
            return found
        raise _NotFound

    def _may_share(self) -> bool:
        self._contracted = self._contracted or migration.is_contracted(self._database)
        return self._contracted
