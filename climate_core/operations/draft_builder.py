# SPDX-License-Identifier: Apache-2.0
"""Build the draft of what a request adds: a new lease, or reservations that join one.

Nothing is written. Each step takes an :class:`~climate_core.lease.request.ErrorCollector`, so that
a create raises the first error and a dry run collects all of them.
"""

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from oslo_config import cfg
from oslo_utils import uuidutils

from climate_common import resource_types
from climate_core import exceptions, packages, policies
from climate_core.conf.delivery import parse_networks
from climate_core.context import RequestContext
from climate_core.db import leases
from climate_core.db.engine import Clock, Database
from climate_core.lease import changes, model, request, states, webhook
from climate_core.lease.request import RAISE_FIRST, ErrorCollector
from climate_core.lease.states import LeaseKind
from climate_core.operations.draft import Draft, Item, Reserver
from climate_core.operations.idempotent_create import check_same_lease, detect_lease_appeared
from climate_core.operations.services import ExternalService
from climate_core.plugins import resource_spec
from climate_core.plugins.base import ResourcePlugin


@dataclasses.dataclass
class DraftBuilder:
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
        chosen = request.chosen_id(context.project_id, values)
        digests = request.request_digests(
            values, chosen, resource_spec.read_digest_keys(self.conf)
        )
        present = self.database.read(leases.find, chosen) if chosen else None
        if present is not None and digests:
            with errors.collected():
                request.check_repeated_request(present, digests)
            return Draft(present, (), now, present)
        asked = request.read_lease_request(values, now, self._rules(), errors, new=present is None)
        if present is not None:
            with errors.collected():
                check_same_lease(asked, present, context.project_id)
            if present.project_id != context.project_id:
                # Nothing of the lease of another project may be told.
                return Draft(present, (), now, present, request=asked)
        lease_id = chosen or uuidutils.generate_uuid()
        dated = (present.kind, present.start_date) if present else (asked.kind, asked.start)
        is_now = creates_now(*dated, now)
        reserver = Reserver(self.plugins, context, lease_id, now, self.conf, present, is_now)
        with detect_lease_appeared(self.database, lease_id, present):
            items, found = reserver.reserve_items(values.get('reservations') or (), errors)
        if present is not None:
            kind = present.kind
        elif errors.found and not items and values.get('reservations'):
            # All of them are rejected: whether they suit the kind is not known.
            kind = states.LeaseKind.IMMEDIATE
        else:
            kind = errors.get(states.LeaseKind.IMMEDIATE, choose_kind, asked.kind, items)
        items = fit_items(kind, items)
        new = [each.reservation for each in items]
        if present is not None:
            after = present
            with errors.collected():
                after = changes.add_reservations(present, new, now).lease
            return Draft(after, items, now, present, found, asked)
        lease = changes.new_lease(
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
        return Draft(lease, items, now, request=asked)

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
        check_allowed(context, policies.CREATE_RESERVATION, lease)
        if lease.project_id != context.project_id:
            raise exceptions.LeaseNotFound(f'Lease {lease_id} was not found.')
        is_now = creates_now(lease.kind, lease.start_date, now)
        reserver = Reserver(self.plugins, context, lease_id, now, self.conf, lease, is_now)
        with detect_lease_appeared(self.database, lease_id, lease):
            items, found = reserver.reserve_items([values], field='')
        if items:
            check_generation(lease, generation)
        new = [each.reservation for each in items]
        after = changes.add_reservations(lease, new, now).lease
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
        parse_networks(section.allowed_networks),
        parse_networks(section.refused_networks),
        section.enabled,
    )


def check_allowed(context: RequestContext, rule: str, lease: model.Lease) -> None:
    """Reject a request that the policy does not allow on the loaded lease.

    :raises climate_core.exceptions.LeaseNotFound: it did not
    """
    if not context.may(rule, lease.project_id):
        raise exceptions.LeaseNotFound(f'Lease {lease.id} was not found.')


def check_generation(lease: model.Lease, generation: int | None) -> None:
    """Reject a change of a lease that has changed since the user has read it."""
    if generation not in (None, lease.generation):
        raise exceptions.GenerationConflict


#: Kinds of leases that hold nothing until the calendar allocates it, or it is created.
_CALENDAR_KINDS: Final = frozenset({LeaseKind.SCHEDULED, LeaseKind.RETRY, LeaseKind.BEST_EFFORT})


def may_be_best_effort(types: Sequence[str]) -> bool:
    """Return whether a lease of these types of resources may be of the kind best_effort."""
    evacuated = {kind for each in packages.list_packages() for kind in each.best_effort_types}
    return len(types) == 1 and types[0] in evacuated


def choose_kind(asked: str | None, items: Sequence[Item]) -> str:
    """Return the kind of a lease.

    :param asked: the kind of the request; None: ``scheduled`` if the calendar allocates all of its
        items, else ``immediate``
    :param items: the items of the request
    :raises climate_core.exceptions.BadRequest: a lease of that kind cannot have these resources
    """
    made = [each for each in items if each.reservation.group]
    held = [each for each in items if each.reservation.unit_kind is None and each not in made]
    if asked is None:
        return LeaseKind.SCHEDULED if items and not (held or made) else LeaseKind.IMMEDIATE
    if asked not in _CALENDAR_KINDS:
        return asked
    if asked == LeaseKind.SCHEDULED:
        stacks = [each for each in held if each.reservation.parts is not None]
        _check_stacks(stacks)
        held = [each for each in held if each not in stacks]
    types = [each.reservation.resource_type for each in items]
    if asked == LeaseKind.BEST_EFFORT and not may_be_best_effort(types):
        raise exceptions.BadRequest(
            'A lease of the kind best_effort must ask for hosts, in one reservation, and for '
            'nothing else.',
            field='kind',
        )
    if not items:
        retry = asked == LeaseKind.RETRY
        may_be_made = 'servers or volumes' if retry else 'servers, volumes or stacks'
        raise exceptions.BadRequest(
            f'A lease of the kind {asked} must ask for hosts, capacity, floating IPs or '
            f'networks, or for {may_be_made} that are made for it.',
            field='kind',
        )
    if held:
        _reject_held(held[0], asked)
    if made and asked == LeaseKind.RETRY and len(made) < len(items):
        raise exceptions.BadRequest(
            f'{made[0].field}: what is made for a lease can be in one of the kind immediate or '
            'scheduled, or retry if all of it is made.',
            field='kind',
        )
    return asked


def creates_now(kind: str | None, start: datetime.datetime, now: datetime.datetime) -> bool:
    """Return whether servers of a lease are created when they are requested.

    Servers of the kind ``retry`` may be queued.
    """
    return kind != LeaseKind.RETRY and (kind != LeaseKind.SCHEDULED or start <= now)


def fit_items(kind: str, items: Sequence[Item]) -> tuple[Item, ...]:
    """Return items without the params that a lease of a kind does not have.

    In a scheduled lease a stack is neither held now nor created at the start.
    """
    if kind != LeaseKind.SCHEDULED:
        return tuple(items)
    return tuple(each if each.reservation.parts is None else _without_hold(each) for each in items)


def _without_hold(item: Item) -> Item:
    params = {name: each for name, each in item.reservation.params.items() if name != 'hold'}
    return item._replace(reservation=dataclasses.replace(item.reservation, params=params))


def _check_stacks(stacks: Sequence[Item]) -> None:
    """Reject stacks that would be created at the start, when capacity is not certain."""
    for each in stacks:
        if each.reservation.params.get('hold') == 'start':
            field = f'{each.field}.hold'
            raise exceptions.BadRequest(
                f'{field}: must be left out in a lease of the kind {LeaseKind.SCHEDULED}: the '
                'stack is made shortly before the start.',
                field=field,
            )


def _reject_held(item: Item, kind: str) -> NoReturn:
    """Reject a resource that exists already, or that cannot be scheduled.

    :raises climate_core.exceptions.BadRequest: always
    """
    if item.reservation.parts is not None:
        raise exceptions.BadRequest(
            f'{item.field}: a stack that is made from a template can be in a lease of the kind '
            f'immediate or scheduled, not {kind}.',
            field='kind',
        )
    shown = resource_types.api_name(item.reservation.resource_type)
    raise exceptions.BadRequest(
        f'{item.field} ({shown}) is held already or not at all, so the kind must be immediate; '
        f'{kind} is for hosts, capacity, floating IPs and networks.',
        field='kind',
    )
