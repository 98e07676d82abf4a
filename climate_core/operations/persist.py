# SPDX-License-Identifier: Apache-2.0
"""Persist a draft with what was provisioned for it: one transaction, all or nothing."""

from collections.abc import Mapping, Sequence

from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import leases, store
from climate_core.db import limits as db_limits
from climate_core.lease import changes, limits, model
from climate_core.lease.history import Cause
from climate_core.operations.build import check_generation
from climate_core.operations.draft import Draft, Item
from climate_core.operations.provision import Provisioned
from climate_core.operations.reserve import find
from climate_core.plugins.base import ResourcePlugin


class Persister:
    """Write drafts in a transaction of the caller."""

    def __init__(self, plugins: Mapping[str, ResourcePlugin]) -> None:
        self.plugins = plugins

    def persist(
        self,
        session: orm.Session,
        draft: Draft,
        done: Provisioned,
        most: limits.Amounts | None,
        cause: Cause,
    ) -> model.Lease:
        """Write a new lease, or let reservations join one that is locked first.

        :param most: the limits of the project; None: none
        :returns: the lease as it is now
        :raises climate_core.exceptions.ClimateError: it is refused
        :raises oslo_db.exception.DBDuplicateEntry: its id, or a resource, is taken
        """
        project_id = draft.lease.project_id
        db_limits.lock(session, project_id, most)
        if draft.before is None:
            lease = done.new_lease(draft)
            adding = limits.amounts(lease.live, leases=1)
            db_limits.check(session, project_id, adding, most)
            store.create(session, lease, draft.now, cause)
            return lease
        lease = leases.get(session, draft.lease.id, lock=True)
        missing = self._missing(lease, done)
        if not missing:
            return lease
        check_generation(lease, draft.generation)
        db_limits.check(session, project_id, limits.amounts(missing), most)
        preparing = done.preparing & {each.id for each in missing}
        change = changes.add_reservations.apply(lease, missing, draft.now, preparing)
        return store.save(session, lease, change, draft.now, cause)

    def _missing(self, lease: model.Lease, done: Provisioned) -> Sequence[model.Reservation]:
        """Return what has not joined since the draft was built: nothing may join twice."""
        missing = []
        for item in done.items:
            found = find(lease, item.key)
            if found is None:
                missing.append(item.reservation)
            elif item.reservation.id in done.reused:
                self._check_reused(found, item)
        return missing

    def _check_reused(self, found: model.Reservation, item: Item) -> None:
        """Refuse what an earlier request made if the lease does not have it in this form.

        :raises climate_core.exceptions.NameTaken: it could not be held, or is something else
        """
        if not self.plugins[found.resource_type].matches_request(found, item.values):
            raise exceptions.NameTaken(
                f'{found.resource_type} {found.resource_id} of this name could not be held and is '
                'being given back; the name is free when that is done.',
                field='name',
            )
