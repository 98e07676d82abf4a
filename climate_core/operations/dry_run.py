# SPDX-License-Identifier: Apache-2.0
"""Dry run: tell whether a request for a lease would be granted. Nothing is written."""

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from climate_common import dates
from climate_core import exceptions
from climate_core.db import holders
from climate_core.db.engine import Database
from climate_core.lease import model
from climate_core.lease.errors import ErrorCollector
from climate_core.operations.build import Builder
from climate_core.operations.draft import Draft
from climate_core.operations.duplicates import check_free, equal_holder
from climate_core.operations.quota import Quota
from climate_core.plugins.base import ResourcePlugin

if TYPE_CHECKING:
    from climate_core.context import RequestContext


class DryRun:
    """Build and check drafts without writing them."""

    def __init__(
        self,
        database: Database,
        builder: Builder,
        quota: Quota,
        plugins: Mapping[str, ResourcePlugin],
    ) -> None:
        self.database = database
        self.builder = builder
        self.quota = quota
        self.plugins = plugins

    def check(self, context: 'RequestContext', values: Mapping[str, Any]) -> dict[str, Any]:
        """Return what would become of a create.

        :returns: ``granted``; ``refusals``, all that can be found, as the API answers errors;
            ``available_from``, the earliest start from which on the same request would be granted,
            if waiting helps and that is known; ``start_date`` and ``end_date``
        :raises climate_core.exceptions.BadRequest: the start or the end has no meaning
        :raises climate_core.exceptions.ServiceUnavailable: a service that must be asked does not
            answer
        """
        errors = ErrorCollector()
        draft = self.builder.build_lease(context, values, errors)
        held = self.database.read(holders.find, [each.key for each in draft.items])
        waits: list[datetime.datetime | None] = []
        if equal_holder(context, draft, held) is None:
            check_free(context, draft, held, errors)
            waits = [self._free_from(context, *each, draft.now) for each in held.items()]
            waits += self._check_quota(draft, errors)
        asked, lease = draft.asked, draft.lease
        return {
            'granted': not errors.found,
            'refusals': [each.body for each in errors.found],
            'available_from': dates.serialize(_latest(waits, draft, errors)),
            'start_date': dates.serialize(asked.start if asked else lease.start_date),
            'end_date': dates.serialize(asked.end if asked else lease.end_date),
        }

    def _check_quota(self, draft: Draft, errors: ErrorCollector) -> list[datetime.datetime | None]:
        """Check the limits and the external service.

        :returns: when the limits that would be exceeded allow the lease
        """
        if draft.before is not None and not draft.items:
            return []
        known = len(errors.found)
        self.quota.check_quota(draft.lease, draft.now, draft.before, errors)
        exceeded = [
            each for each in errors.found[known:] if isinstance(each, exceptions.LimitExceeded)
        ]
        if not exceeded or draft.before is not None:
            return []
        return [self.quota.available_from(draft.lease, draft.now)]

    def _free_from(
        self,
        context: 'RequestContext',
        key: holders.Key,
        holder: model.Lease,
        now: datetime.datetime,
    ) -> datetime.datetime | None:
        """Return when a resource can be reserved anew; None if never, or if it is not told."""
        if holder.project_id != context.project_id or not self.plugins[key[0]].reusable:
            return None
        return max(now, holder.end_date)


def _latest(
    waits: list[datetime.datetime | None], draft: Draft, errors: ErrorCollector
) -> datetime.datetime | None:
    """Return when all that is refused is over, if that is known and the request allows it."""
    known = [each for each in waits if each is not None]
    if not known or len(known) < len(errors.found) or draft.asked is None:
        return None
    latest = max(known)
    return None if draft.asked.lasts is None and latest >= draft.asked.end else latest
