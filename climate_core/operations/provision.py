# SPDX-License-Identifier: Apache-2.0
"""Provision what a draft needs right before it is written; discard it if that fails.

That is the owner's trust of a new lease, and the resources that plugins make.
"""

import dataclasses
import datetime
from collections.abc import Mapping

from oslo_log import log

from climate_core import exceptions, test_points
from climate_core.cloud import errors
from climate_core.concurrency import check_deadline
from climate_core.context import RequestContext
from climate_core.db import leases, missing
from climate_core.db.engine import TROUBLE, Database
from climate_core.lease import events, model
from climate_core.lease.errors import within
from climate_core.operations.draft import Draft, Item
from climate_core.operations.interfaces import TrustService
from climate_core.operations.owner_trusts import OwnerTrust, OwnerTrusts
from climate_core.plugins.base import Claimed, ResourcePlugin

LOG = log.getLogger(__name__)

_TROUBLE: tuple[type[Exception], ...] = (*errors.EXPECTED, *TROUBLE)
_NO_TRUST = (exceptions.Transient, exceptions.Permanent, exceptions.ClimateError)


@dataclasses.dataclass(slots=True)
class Provisioned:
    """The resources that a draft is written with.

    :param trust: the trust of its owner; None for what joins a lease
    :param items: those of the draft, with the ids that their resources have now
    :param preparing: how long before the start reservations are to be prepared, by their ids;
        None: at once
    :param made: the reservations whose resource was made just now
    :param reused: the ids of the reservations whose resource an equal request made before
    """

    trust: OwnerTrust | None = None
    items: list[Item] = dataclasses.field(default_factory=list)
    preparing: dict[str, datetime.timedelta | None] = dataclasses.field(default_factory=dict)
    made: list[model.Reservation] = dataclasses.field(default_factory=list)
    reused: set[str] = dataclasses.field(default_factory=set)

    def new_lease(self, draft: Draft) -> model.Lease:
        """Return the new lease of a draft with all of this."""
        reservations = model.in_order((), (each.reservation for each in self.items))
        trust_id = self.trust.id if self.trust else None
        lease = dataclasses.replace(draft.lease, trust_id=trust_id, reservations=reservations)
        return events.prepare.add(lease, self.preparing, draft.now)

    def wrote(self, draft: Draft, lease: model.Lease) -> bool:
        """Tell whether a lease is what was written of a draft, and not of an equal request.

        Both may share the trust of their owner. The ids within the lease are of one request alone.
        """
        written = {each.id for each in lease.reservations} | {each.id for each in lease.events}
        own = {each.reservation.id for each in self.items}
        own |= {each.id for each in draft.lease.events}
        return not own.isdisjoint(written)


@dataclasses.dataclass
class Provisioner:
    """Make trusts and resources with the rights of the user, and discard them."""

    database: Database
    plugins: Mapping[str, ResourcePlugin]
    trusts: TrustService
    owner_trusts: OwnerTrusts

    def provision(self, context: RequestContext, draft: Draft) -> Provisioned:
        """Make what a draft needs, in the order of the request, or leave nothing behind.

        Once something was made, the rest is made, too, whether the caller waits for it or not.
        """
        check_deadline()
        done = Provisioned(self.owner_trusts.take(context) if draft.before is None else None)
        try:
            for item in draft.items:
                if not done.made:
                    check_deadline()
                with within(item.field):
                    self._make(context, draft.lease.id, item, done)
        except BaseException:
            self._discard_resources(done)
            self._delete_trust(done)
            raise
        return done

    def discard(self, done: Provisioned, draft: Draft) -> model.Lease | None:
        """Delete what was made, except what a lease holds by now.

        What cannot be deleted is logged and stays: ``climate-manage repair`` finds it.

        :returns: the new lease if it is the one of this draft: its commit went through after all
        """
        if done.trust is not None:
            try:
                present = self.database.read(leases.find, draft.lease.id)
            except TROUBLE:
                # A lease whose trust was deleted could not start.
                if done.trust.is_new:
                    LOG.error(
                        'Whether lease %s was written is not known, so the trust %s stays. If no '
                        'lease has it, delete it, or let [cloud] sweep_trusts do so',
                        draft.lease.id,
                        done.trust.id,
                    )
            else:
                if present is not None and done.wrote(draft, present):
                    if present.trust_id != done.trust.id:
                        # It was committed with the one before, which was retired since.
                        self._delete_trust(done)
                    return present
                self._delete_trust(done)
        self._discard_resources(done)
        return None

    def replace_trust(self, context: RequestContext, done: Provisioned) -> None:
        """Take another trust of the owner: the one that was found is retired."""
        assert done.trust is not None  # nosec B101 # for mypy: it holds already
        done.trust = self.owner_trusts.replace(context, done.trust)

    def _make(self, context: RequestContext, lease_id: str, item: Item, done: Provisioned) -> None:
        before = item.reservation
        claimed = Claimed(before.resource_id, before.params, before.amounts)
        claimed = self.plugins[before.resource_type].make(context, lease_id, item.values, claimed)
        after = dataclasses.replace(
            before, resource_id=claimed.resource_id, params=dict(claimed.params)
        )
        done.items.append(item._replace(reservation=after))
        if claimed.made:
            done.made.append(after)
            test_points.reached('make.after', event_type='lease.create', lease_id=lease_id)
        elif claimed.resource_id != before.resource_id:
            done.reused.add(before.id)
        if claimed.prepare:
            done.preparing[before.id] = claimed.prepare_before

    def _discard_resources(self, done: Provisioned) -> None:
        for each in done.made:
            kind, resource_id = each.resource_type, each.resource_id
            try:
                if self.database.read(missing.unheld, kind, [resource_id]):
                    self.plugins[kind].discard(resource_id)
            except _TROUBLE:
                told = 'The %s %s of a lease that was not created stays'
                LOG.warning(told, kind, resource_id, exc_info=True)

    def _delete_trust(self, done: Provisioned) -> None:
        if done.trust is None or not done.trust.is_new:
            return
        try:
            self.trusts.delete(done.trust.id)
        except _NO_TRUST:
            told = 'The trust %s of a lease that was not created stays'
            LOG.warning(told, done.trust.id, exc_info=True)
