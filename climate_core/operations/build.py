# SPDX-License-Identifier: Apache-2.0
"""Build the draft of what a request adds: a new lease, or reservations that join one.

Nothing is written. Each step takes an :class:`~climate_core.lease.errors.ErrorCollector`, so that
a create raises the first error and a dry run collects all of them.
"""

import datetime
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from oslo_config import cfg
from oslo_utils import uuidutils

from climate_core import exceptions
from climate_core.conf.webhooks import networks
from climate_core.db import leases
from climate_core.db.clock import Clock
from climate_core.db.engine import Database
from climate_core.lease import changes, idempotency, model, request, webhook
from climate_core.lease.errors import RAISE_FIRST, ErrorCollector
from climate_core.operations.draft import Draft, Item
from climate_core.operations.duplicates import check_same, noticed
from climate_core.operations.interfaces import ExternalService
from climate_core.operations.reserve import Reserver
from climate_core.plugins.base import ResourcePlugin

if TYPE_CHECKING:
    from climate_core.context import RequestContext


class Builder:
    """Build drafts of leases, and of reservations that join them."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        database: Database,
        clock: Clock,
        plugins: Mapping[str, ResourcePlugin],
        external: ExternalService,
    ) -> None:
        self.conf = conf
        self.database = database
        self.clock = clock
        self.reserver = Reserver(plugins)
        self.external = external

    def build_lease(
        self,
        context: 'RequestContext',
        values: Mapping[str, Any],
        errors: ErrorCollector = RAISE_FIRST,
    ) -> Draft:
        """Build the lease of a request, or what joins the lease that has its id already.

        :param values: see :meth:`climate_core.operations.leases.LeaseOperations.create_lease`
        :raises climate_core.exceptions.ClimateError: it is refused
        """
        now = self.clock.now()
        chosen = idempotency.chosen_id(context.project_id, values)
        digest = idempotency.digest(values)
        present = self.database.read(leases.find, chosen) if chosen else None
        if present is not None and digest is not None:
            with errors.collected():
                idempotency.check_repeated(present, digest)
            return Draft(present, (), now, present)
        asked = request.read_request(values, now, self._defaults(), errors)
        if present is None:
            check_time(asked, now, self.conf.manager.late_start_seconds, errors)
        else:
            with errors.collected():
                check_same(asked, present, context.project_id)
            if present.project_id != context.project_id:
                # Nothing of the lease of another project may be told.
                return Draft(present, (), now, present, asked=asked)
        lease_id = chosen or uuidutils.generate_uuid()
        with noticed(self.database, lease_id, present):
            items, found = self.reserver.reserve_items(
                context, lease_id, values.get('reservations') or (), now, present, errors
            )
        if present is not None:
            after = errors.get(present, _joined, present, items, now)
            return Draft(after, items, now, present, found, asked)
        lease = changes.create.new_lease(
            lease_id,
            asked,
            digest,
            context,
            [each.reservation for each in items],
            now,
            self.conf.manager.before_start_seconds,
            self.external.on_end,
        )
        return Draft(lease, items, now, asked=asked)

    def build_reservation(
        self,
        context: 'RequestContext',
        lease_id: str,
        values: Mapping[str, Any],
        generation: int | None,
    ) -> Draft:
        """Build a reservation that joins a lease of the same project.

        :param generation: that of the lease that the user has seen; None: it does not matter
        :raises climate_core.exceptions.LeaseNotFound: the project has no such lease
        :raises climate_core.exceptions.ClimateError: it is refused
        """
        now = self.clock.now()
        lease = self.database.read(leases.get, lease_id)
        if lease.project_id != context.project_id:
            raise exceptions.LeaseNotFound(f'Lease {lease_id} was not found.')
        with noticed(self.database, lease_id, lease):
            items, found = self.reserver.reserve_items(
                context, lease_id, [values], now, lease, field=''
            )
        if items:
            check_generation(lease, generation)
        after = _joined(lease, items, now)
        return Draft(after, items, now, lease, found, generation=generation)

    def _defaults(self) -> request.Defaults:
        minutes = self.conf.manager.minutes_before_end_lease
        return request.Defaults(minutes, webhook_rules(self.conf))


def webhook_rules(conf: cfg.ConfigOpts) -> webhook.Rules:
    """Return the rules of climate.conf for the addresses of webhooks."""
    section = conf.webhooks
    return webhook.Rules(
        allowed=networks(section.allowed_networks),
        refused=networks(section.refused_networks),
        enabled=section.enabled,
    )


def check_time(
    asked: request.LeaseRequest,
    now: datetime.datetime,
    late: float,
    errors: ErrorCollector = RAISE_FIRST,
) -> None:
    """Refuse a new lease whose time is past.

    :param late: seconds that the start may be late
    :raises climate_core.exceptions.InvalidDate: it is
    """
    earliest = now - datetime.timedelta(seconds=late)
    past = {
        'start_date': ('The start must not be in the past.', asked.start < earliest),
        'events': (
            'An event must not be in the past.',
            any(time < earliest for _, time in asked.events),
        ),
        'end_date': ('The end must be in the future.', asked.end <= now),
    }
    for field, (told, wrong) in past.items():
        if wrong:
            errors.add(exceptions.InvalidDate(told, field=field))


def check_generation(lease: model.Lease, generation: int | None) -> None:
    """Refuse to change a lease that is not the one that the user has seen.

    :raises climate_core.exceptions.GenerationConflict: it has another generation
    """
    if generation not in (None, lease.generation):
        raise exceptions.GenerationConflict


def _joined(lease: model.Lease, items: Iterable[Item], now: datetime.datetime) -> model.Lease:
    new = [each.reservation for each in items]
    return changes.add_reservations.apply(lease, new, now).lease if new else lease
