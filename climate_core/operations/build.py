# SPDX-License-Identifier: Apache-2.0
"""Build the draft of what a request adds: a new lease, or reservations that join one.

Nothing is written. Each step takes an :class:`~climate_core.lease.errors.ErrorCollector`, so that
a create raises the first error and a dry run collects all of them.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg
from oslo_utils import uuidutils

from climate_core import exceptions
from climate_core.conf.webhooks import networks
from climate_core.context import RequestContext
from climate_core.db import leases
from climate_core.db.clock import Clock
from climate_core.db.engine import Database
from climate_core.lease import changes, idempotency, model, request, states, webhook
from climate_core.lease.errors import RAISE_FIRST, ErrorCollector
from climate_core.operations import kinds
from climate_core.operations.draft import Draft
from climate_core.operations.duplicates import check_same, noticed
from climate_core.operations.interfaces import ExternalService
from climate_core.operations.reserve import Reserver
from climate_core.plugins import specified
from climate_core.plugins.base import ResourcePlugin
from climate_core.policies import reservations


@dataclasses.dataclass
class Builder:
    """Build drafts of leases, and of reservations that join them."""

    conf: cfg.ConfigOpts
    database: Database
    clock: Clock
    plugins: Mapping[str, ResourcePlugin]
    external: ExternalService

    def build_lease(
        self,
        context: RequestContext,
        values: Mapping[str, Any],
        errors: ErrorCollector = RAISE_FIRST,
    ) -> Draft:
        """Build the lease of a request, or what joins the lease that has its id already."""
        now = self.clock.now()
        chosen = idempotency.chosen_id(context.project_id, values)
        digests = idempotency.digests(values, chosen, specified.digest_keys(self.conf))
        present = self.database.read(leases.find, chosen) if chosen else None
        if present is not None and digests:
            with errors.collected():
                idempotency.check_repeated(present, digests)
            return Draft(present, (), now, present)
        asked = request.read_request(values, now, self._rules(), errors, new=present is None)
        if present is not None:
            with errors.collected():
                check_same(asked, present, context.project_id)
            if present.project_id != context.project_id:
                # Nothing of the lease of another project may be told.
                return Draft(present, (), now, present, asked=asked)
        lease_id = chosen or uuidutils.generate_uuid()
        dated = (present.kind, present.start_date) if present else (asked.kind, asked.start)
        is_now = kinds.creates_now(*dated, now)
        reserver = Reserver(self.plugins, context, lease_id, now, self.conf, present, is_now)
        with noticed(self.database, lease_id, present):
            items, found = reserver.reserve_items(values.get('reservations') or (), errors)
        if present is not None:
            kind = present.kind
        elif errors.found and not items and values.get('reservations'):
            # All of them are rejected: whether they suit the kind is not known.
            kind = states.LeaseKind.IMMEDIATE
        else:
            kind = errors.get(states.LeaseKind.IMMEDIATE, kinds.of, asked.kind, items)
        items = kinds.fitted(kind, items)
        new = [each.reservation for each in items]
        if present is not None:
            after = present
            with errors.collected():
                after = changes.add_reservations.apply(present, new, now).lease
            return Draft(after, items, now, present, found, asked)
        lease = changes.create.new_lease(
            lease_id,
            asked,
            digests[0] if digests else None,
            context,
            new,
            now,
            self.conf.manager.before_start_seconds,
            self.external.on_end,
            kind,
        )
        return Draft(lease, items, now, asked=asked)

    def build_reservation(
        self,
        context: RequestContext,
        lease_id: str,
        values: Mapping[str, Any],
        generation: int | None,
    ) -> Draft:
        """Build a reservation that joins a lease of the same project; else LeaseNotFound."""
        now = self.clock.now()
        lease = self.database.read(leases.get, lease_id)
        check_allowed(context, reservations.CREATE, lease)
        if lease.project_id != context.project_id:
            raise exceptions.LeaseNotFound(f'Lease {lease_id} was not found.')
        is_now = kinds.creates_now(lease.kind, lease.start_date, now)
        reserver = Reserver(self.plugins, context, lease_id, now, self.conf, lease, is_now)
        with noticed(self.database, lease_id, lease):
            items, found = reserver.reserve_items([values], field='')
        if items:
            check_generation(lease, generation)
        new = [each.reservation for each in items]
        after = changes.add_reservations.apply(lease, new, now).lease
        return Draft(after, items, now, lease, found, generation=generation)

    def _rules(self) -> request.RequestRules:
        manager, queue = self.conf.manager, self.conf.queue
        return request.RequestRules(
            manager.minutes_before_end_lease,
            webhook_rules(self.conf),
            manager.late_start_seconds,
            queue.max_retries,
            queue.best_effort_timeout,
        )


def webhook_rules(conf: cfg.ConfigOpts) -> webhook.WebhookRules:
    """Return the rules of climate.conf for the addresses of webhooks."""
    section = conf.webhooks
    return webhook.WebhookRules(
        networks(section.allowed_networks), networks(section.refused_networks), section.enabled
    )


def check_allowed(context: RequestContext, rule: str, lease: model.Lease) -> None:
    """Reject a request that the policy did not allow on the lease that was loaded.

    :raises climate_core.exceptions.LeaseNotFound: it did not
    """
    if not context.may(rule, lease.project_id):
        raise exceptions.LeaseNotFound(f'Lease {lease.id} was not found.')


def check_generation(lease: model.Lease, generation: int | None) -> None:
    """Refuse to change a lease that is not the one that the user has seen, if that is said."""
    if generation not in (None, lease.generation):
        raise exceptions.GenerationConflict
