# SPDX-License-Identifier: Apache-2.0
"""The one way to write a draft: quota, provision, persist."""

from typing import TYPE_CHECKING, NamedTuple

from climate_core import exceptions
from climate_core.db.engine import TROUBLE, Database, Stale
from climate_core.lease import model
from climate_core.lease.history import user_cause
from climate_core.operations.draft import Draft, key
from climate_core.operations.duplicates import DUPLICATE, find_answer, noticed
from climate_core.operations.persist import Persister
from climate_core.operations.provision import Provisioner
from climate_core.operations.quota import Quota

if TYPE_CHECKING:
    from climate_core.context import RequestContext

#: After these the lease may be written. Also after a refusal: an attempt that follows a lost
#: connection counts what the one before it wrote.
_MAYBE_WRITTEN: tuple[type[Exception], ...] = (exceptions.ClimateError, Stale, *TROUBLE)


class Written(NamedTuple):
    """The answer to a request.

    :param reservations: those that were asked for, as the lease has them; none of an equal lease
    """

    lease: model.Lease
    reservations: tuple[model.Reservation, ...] = ()


class WritePath:
    """Write drafts, all or nothing."""

    def __init__(
        self,
        database: Database,
        quota: Quota,
        provisioner: Provisioner,
        persister: Persister,
    ) -> None:
        self.database = database
        self.quota = quota
        self.provisioner = provisioner
        self.persister = persister

    def write_draft(self, context: 'RequestContext', draft: Draft) -> Written:
        """Write what a request adds, or find that it is written already.

        :raises climate_core.exceptions.LeaseAppeared: an equal request may have been faster: build
            the draft anew
        :raises climate_core.exceptions.ClimateError: it is refused, and nothing is left behind
        """
        if draft.before is not None and not draft.items:
            return Written(draft.before, draft.found)
        try:
            with noticed(self.database, draft.lease.id, draft.before):
                return self._write(context, draft)
        except DUPLICATE as exc:
            return Written(find_answer(self.database, context, draft, exc))

    def _write(self, context: 'RequestContext', draft: Draft) -> Written:
        most = self.quota.check_quota(draft.lease, draft.now, draft.before)
        done = self.provisioner.provision(context, draft)
        action = 'lease.create' if draft.before is None else 'reservation.create'
        cause = user_cause(context, action)
        try:
            lease = self.database.write(self.persister.persist, draft, done, most, cause)
        except _MAYBE_WRITTEN:
            found = self.provisioner.discard(done, draft.lease.id)
            if found is None:
                raise
            lease = found
        held = {key(each): each for each in lease.live}
        return Written(lease, draft.found + tuple(held[each.key] for each in done.items))
