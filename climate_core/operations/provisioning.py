# SPDX-License-Identifier: Apache-2.0
"""Provision what a draft needs right before it is written; discard it if that fails.

That is the trust of the owner of a new lease, which leases of the owner share or which is new,
and the resources that plugins create.
"""

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Final

from oslo_db import exception as db_exc
from oslo_log import log
from sqlalchemy import orm

from climate_core import exceptions, test_hooks
from climate_core.cloud import errors
from climate_core.cloud.trusts import Trusts
from climate_core.concurrency import RecentCache, check_deadline
from climate_core.context import RequestContext
from climate_core.db import held_resources, leases
from climate_core.db import trusts as db
from climate_core.db.engine import DATABASE_ERRORS, Database, after_commit
from climate_core.db.trusts import TrustScope
from climate_core.lease import model
from climate_core.lease.events import preparation
from climate_core.lease.request import prefix_field
from climate_core.operations.draft import Draft, Item
from climate_core.plugins.base import LeaseManaged, Prepared, ReservedResource, ResourcePlugin

LOG = log.getLogger(__name__)

_CLEANUP_ERRORS: tuple[type[Exception], ...] = (*errors.EXPECTED, *DATABASE_ERRORS)
_TRUST_ERRORS = (exceptions.Transient, exceptions.Permanent, exceptions.ClimateError)


#: Keystonemiddleware's ``token_cache_time``.
_TRUST_CACHE_SECONDS: Final = 300.0

#: Maximum number of trusts of an owner that a create checks in Keystone before it creates one.
_TRUSTS_CHECKED: Final = 3


@dataclasses.dataclass(frozen=True, slots=True)
class OwnerTrust:
    """The trust of a new lease.

    :param scope: the scope by which other leases find it; None: it is of this lease alone
    :param is_new: whether it was created for this lease
    """

    id: str
    scope: TrustScope | None = None
    is_new: bool = True


class OwnerTrusts:
    """Find or create the trusts of new leases, and release those of ended leases.

    Only a request with the user's own token shares a trust. A token that was delegated itself (a
    trust, an application credential, OAuth) must not gain rights through a trust that the user
    created with more of them. Keystone decides what such a token may delegate, so it creates a
    trust for this lease alone.

    A trust is cached for :data:`_TRUST_CACHE_SECONDS`, after Keystone has issued a token for it:
    the owner may be disabled, or the trust deleted by an administrator. keystonemiddleware caches
    the token of a request as long, so a revoked right creates leases no longer than any service
    accepts the user. The cache decides nothing: the statement that writes the lease checks that
    its trust is live, see :mod:`climate_core.db.trusts`.

    :param size: the number of owners whose trusts are cached
    """

    def __init__(self, database: Database, trusts: Trusts, size: int) -> None:
        self._database = database
        self._trusts = trusts
        self._known: RecentCache[str] = RecentCache(size, _TRUST_CACHE_SECONDS)

    def take(self, context: RequestContext) -> OwnerTrust:
        """Return a live trust of the user, project and roles of a request, or create one.

        :raises climate_core.exceptions.Forbidden: Keystone does not let this token delegate
        :raises climate_core.exceptions.ServiceUnavailable: Keystone does not answer
        """
        scope = self._trusts.scope(context)
        if scope is None:
            return OwnerTrust(self._trusts.create(context))
        trust_id = self._known.find(scope.digest)
        if trust_id is None:
            trust_id = self._find(scope)
            if trust_id is None:
                return OwnerTrust(self._trusts.create(context, scope.roles), scope)
            self._known.put(scope.digest, trust_id)
        return OwnerTrust(trust_id, scope, is_new=False)

    def replace(self, context: RequestContext, trust: OwnerTrust) -> OwnerTrust:
        """Return another trust instead of one that has been retired."""
        assert trust.scope is not None  # nosec B101 # for mypy: it holds already
        self._known.drop(trust.scope.digest)
        return self.take(context)

    def keep(self, session: orm.Session, trust: OwnerTrust) -> None:
        """Let later leases share a new trust, from the commit of its first lease on."""
        if trust.is_new and trust.scope is not None:
            digest = trust.scope.digest
            db.insert(session, trust.id, trust.scope)
            after_commit(session, lambda: self._known.put(digest, trust.id))

    def discard(self, trust: OwnerTrust | None) -> None:
        """Delete a new trust without a lease; ``climate-manage repair`` finds leftover trusts."""
        if trust is None or not trust.is_new:
            return
        try:
            self._trusts.delete(trust.id)
        except _TRUST_ERRORS:
            LOG.warning(
                'Could not delete the trust %s of a lease that was not created',
                trust.id,
                exc_info=True,
            )

    def release(self, lease: model.Lease) -> None:
        """Release the trust of a lease that has ended: retain a shared trust a while, else delete.

        Nothing happens while another lease needs it. Of two leases that end at the same time the
        second finds that the first has ended: each checks after its own commit. If a node of a
        database cluster lags behind and neither finds that, reconciliation deletes the trust.

        Such a node may not report either that a trust is shared. So a trust that seems not to be
        shared is stored first, as retired: that fails if another lease may have it.

        :raises climate_core.exceptions.Transient: try again later
        :raises climate_core.exceptions.Permanent: Keystone forbids the deletion
        """
        trust_id = lease.trust_id
        if trust_id is None:
            return
        use = self._database.read(db.read_use, trust_id)
        shared = use.shared or not (use.known or self._retire_alone(trust_id, lease))
        if use.needed:
            return
        if shared:
            self._database.write(db.retain, trust_id)
            return
        self._trusts.delete(trust_id)
        self._database.write(db.delete, trust_id)

    def _retire_alone(self, trust_id: str, lease: model.Lease) -> bool:
        """Store a trust as that of one lease alone; return whether it is."""
        try:
            self._database.write(db.insert_unshared, trust_id, lease.user_id, lease.project_id)
        except db_exc.DBDuplicateEntry:
            return False
        return True

    def _find(self, scope: TrustScope) -> str | None:
        """Return a live trust that Keystone issues tokens for; retire rejected trusts."""
        for _ in range(_TRUSTS_CHECKED):
            trust_id = self._database.read(db.find_live, scope)
            if trust_id is None:
                break
            with errors.for_user():
                try:
                    self._trusts.roles(trust_id)
                except errors.TrustRejected:
                    self._database.write(db.retire, [trust_id])
                    continue
            return trust_id
        # Rejected trusts may still seem live on a node that lags behind: do not try all of them.
        return None


@dataclasses.dataclass(slots=True)
class Provisioned:
    """The resources that a draft is saved with.

    :param trust: the trust of its owner; None if the items join a lease
    :param items: the items of the draft, with the present ids of their resources
    :param preparing: how long before the start reservations are to be prepared, by their ids;
        None: immediately
    :param created: the reservations whose resource was just created
    :param reused: the ids of the reservations whose resource an earlier equal request created
    """

    trust: OwnerTrust | None = None
    items: list[Item] = dataclasses.field(default_factory=list)
    preparing: dict[str, datetime.timedelta | None] = dataclasses.field(default_factory=dict)
    created: list[model.Reservation] = dataclasses.field(default_factory=list)
    reused: set[str] = dataclasses.field(default_factory=set)

    @property
    def owner_trust(self) -> OwnerTrust:
        """Return the trust of a new lease."""
        assert self.trust is not None  # nosec B101 # for mypy: a new lease has a trust
        return self.trust

    def new_lease(self, draft: Draft) -> model.Lease:
        """Return the new lease of a draft with all of this."""
        reservations = model.order_joining((), (each.reservation for each in self.items))
        lease = dataclasses.replace(
            draft.lease, trust_id=self.owner_trust.id, reservations=reservations
        )
        return preparation.add_preparations(lease, self.preparing, draft.now)

    def is_lease_of(self, draft: Draft, lease: model.Lease) -> bool:
        """Return whether a lease was written by the request of a draft, not by an equal request.

        Both may share the trust of their owner. The ids within the lease are of one request only.
        """
        written = {each.id for each in lease.reservations} | {each.id for each in lease.events}
        own = {each.reservation.id for each in self.items}
        own |= {each.id for each in draft.lease.events}
        return not own.isdisjoint(written)


@dataclasses.dataclass
class Provisioner:
    """Create trusts and resources with the rights of the user, and discard them."""

    database: Database
    plugins: Mapping[str, ResourcePlugin]
    owner_trusts: OwnerTrusts

    def provision(self, context: RequestContext, draft: Draft) -> Provisioned:
        """Create what a draft needs, in the order of the request, or leave nothing behind.

        After the first resource the deadline of the caller is ignored.
        """
        check_deadline()
        done = Provisioned(self.owner_trusts.take(context) if draft.before is None else None)
        try:
            for item in draft.items:
                if not done.created:
                    check_deadline()
                with prefix_field(item.field):
                    self._create_resource(context, draft.lease.id, item, done)
        except BaseException:
            self._discard_resources(done)
            self.owner_trusts.discard(done.trust)
            raise
        return done

    def discard(self, done: Provisioned, draft: Draft) -> model.Lease | None:
        """Delete the created resources, except the resources of a lease.

        Failures are logged: ``climate-manage repair`` finds the resources.

        :returns: the new lease if it is the lease of this draft: its commit has succeeded
        """
        if done.trust is not None:
            try:
                present = self.database.read(leases.find, draft.lease.id)
            except DATABASE_ERRORS:
                # A lease whose trust was deleted could not start.
                if done.trust.is_new:
                    LOG.error(
                        'Could not determine whether lease %s was committed: its trust %s is '
                        'retained. If no lease has it, delete it, or let [cloud] sweep_trusts do '
                        'so',
                        draft.lease.id,
                        done.trust.id,
                    )
            else:
                if present is not None and done.is_lease_of(draft, present):
                    if present.trust_id != done.trust.id:
                        # It was committed with the previous trust, which has been retired since.
                        self.owner_trusts.discard(done.trust)
                    return present
                self.owner_trusts.discard(done.trust)
        self._discard_resources(done)
        return None

    def replace_trust(self, context: RequestContext, done: Provisioned) -> None:
        """Take another trust of the owner: the present one has been retired."""
        done.trust = self.owner_trusts.replace(context, done.owner_trust)

    def _create_resource(
        self, context: RequestContext, lease_id: str, item: Item, done: Provisioned
    ) -> None:
        before, plugin = item.reservation, self.plugins[item.reservation.resource_type]
        claimed = ReservedResource(before.resource_id, before.params, before.amounts)
        if isinstance(plugin, Prepared):
            claimed = plugin.make(context, lease_id, item.values, claimed)
        after = dataclasses.replace(
            before, resource_id=claimed.resource_id, params=dict(claimed.params)
        )
        done.items.append(item._replace(reservation=after))
        if claimed.is_created:
            done.created.append(after)
            test_hooks.reached('make.after', event_type='lease.create', lease_id=lease_id)
        elif claimed.resource_id != before.resource_id:
            done.reused.add(before.id)
        if claimed.prepare:
            done.preparing[before.id] = claimed.prepare_before

    def _discard_resources(self, done: Provisioned) -> None:
        for each in done.created:
            resource_type, resource_id = each.resource_type, each.resource_id
            plugin = self.plugins[resource_type]
            try:
                if isinstance(plugin, LeaseManaged) and self.database.read(
                    held_resources.find_unheld, resource_type, [resource_id]
                ):
                    plugin.discard(resource_id)
            except _CLEANUP_ERRORS:
                LOG.warning(
                    'Could not delete the %s %s of a lease that was not created',
                    resource_type,
                    resource_id,
                    exc_info=True,
                )
