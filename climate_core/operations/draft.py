# SPDX-License-Identifier: Apache-2.0
"""The draft of what a request adds, and its items: what the plugins can reserve.

Check that the kind of the lease allows its items. Nothing is written.
"""

import dataclasses
import datetime
from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn, Self

from oslo_config import cfg

from climate_common import resource_types
from climate_core import exceptions, packages
from climate_core.cloud import errors as cloud_errors
from climate_core.cloud.services import Lookups, TooManyLookups
from climate_core.concurrency import check_deadline
from climate_core.context import RequestContext
from climate_core.lease import model, states
from climate_core.lease.request import RAISE_FIRST, ErrorCollector, LeaseRequest, prefix_field
from climate_core.lease.states import LeaseKind
from climate_core.operations.quota import ReservationBudget
from climate_core.plugins import provisioned_plugin
from climate_core.plugins.base import ResourcePlugin, Specified


class Item(NamedTuple):
    """A reservation that a request adds.

    :param values: the part of the request that requests it
    :param field: where that stands, as ``reservations[2]``; empty if it is the whole request
    """

    reservation: model.Reservation
    values: Mapping[str, Any]
    field: str = ''


class PreemptionChoice(NamedTuple):
    """The leases that another lease preempts.

    :param lease: the other lease; it may start later than requested
    :param leases: their ids
    :param time: when active preempted leases release their resources; None: at its start
    :param wait_reason: why it is queued until then; None: it is not queued
    """

    lease: model.Lease
    leases: tuple[str, ...]
    time: datetime.datetime | None = None
    wait_reason: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Draft:
    """The reservations, or the lease with them, that a request adds.

    :param lease: the lease with the items; a new lease has no trust yet
    :param items: the new reservations; nothing is written if a present lease gets none
    :param before: the lease that the items join; None: the lease is new
    :param already_reserved: the requested reservations that this lease has already
    :param request: the request, if it is for a whole lease
    :param proposed: the ids of units with sufficient capacity by the index in memory
    :param wait_reason: why the lease is queued; None: it is not queued
    :param hosts_to_evacuate: the ids of the shared hosts to be drained for it
    :param preempted: the ids of the leases that it preempts
    :param preempt_at: when active preempted leases release their resources; None: at its start
    :param generation: the generation of the lease that the user has read; None: any
    """

    lease: model.Lease
    items: tuple[Item, ...]
    now: datetime.datetime
    before: model.Lease | None = None
    already_reserved: tuple[model.Reservation, ...] = ()
    request: LeaseRequest | None = None
    generation: int | None = None
    proposed: frozenset[int] = frozenset()
    wait_reason: str | None = None
    hosts_to_evacuate: tuple[int, ...] = ()
    preempted: tuple[str, ...] = ()
    preempt_at: datetime.datetime | None = None

    @property
    def may_wait(self) -> bool:
        """Return whether it is a new lease that may be queued until there is capacity."""
        return self.before is None and self.lease.kind == LeaseKind.RETRY

    @property
    def needs_no_calendar(self) -> bool:
        """Return whether it is a new lease that writes only its own rows."""
        return (
            self.before is None
            and not (self.wait_reason or self.hosts_to_evacuate or self.preempted)
            and not self.may_wait
            and all(item.reservation.unit_kind is None for item in self.items)
        )

    @property
    def needs_forecast(self) -> bool:
        """Return whether the common pool must have capacity later for what it creates."""
        return self.lease.kind in (LeaseKind.SCHEDULED, LeaseKind.RETRY) and any(
            item.reservation.is_uncreated or item.reservation.parts for item in self.items
        )

    @property
    def fields(self) -> dict[str, str]:
        """Return the places of the reservations in the request by their ids."""
        return {item.reservation.id: item.field for item in self.items}

    def with_preemption(self, choice: PreemptionChoice) -> Self:
        """Return the draft with the leases that it preempts."""
        return dataclasses.replace(
            self,
            lease=choice.lease,
            preempted=choice.leases,
            preempt_at=choice.time,
            wait_reason=choice.wait_reason,
        )


class _HeldReservations:
    """The reservations of a lease, by the keys of requests; without a lease there are none.

    No lookup scans them. A reservation that the calendar allocates, or whose resource is created
    for it, is found once only, since a request may name several equal ones.
    """

    def __init__(
        self, plugins: Mapping[str, ResourcePlugin], lease: model.Lease | None = None
    ) -> None:
        live = () if lease is None else lease.live
        self.by_resource = {each.key: each for each in live}
        self._groups: dict[str | None, list[model.Reservation]] = {}
        self._by_key: dict[tuple[str, Hashable], deque[model.Reservation]] = {}
        self._types = {each.resource_type for each in live}
        self._ids = {each.id for each in live}
        self._found: set[str] = set()
        self._exclusive: set[tuple[str, Hashable]] = set()
        for each in live:
            self._groups.setdefault(each.group, []).append(each)
            if each.resource_type in plugins:
                for key in plugins[each.resource_type].reservation_keys(each):
                    self._by_key.setdefault((each.resource_type, key), deque()).append(each)

    def __contains__(self, reservation: model.Reservation) -> bool:
        return reservation.id in self._ids

    def note(self, reservation: model.Reservation) -> None:
        """Note that the request contains a reservation."""
        self._found.add(reservation.id)

    def check_exclusive(self, plugin: Specified, values: Mapping[str, Any]) -> None:
        """Reject an exclusive value that another part of the request has.

        :raises climate_core.exceptions.BadRequest: naming the field
        """
        for field, key in plugin.list_exclusive(values):
            owned = plugin.resource_type, key
            if owned in self._exclusive:
                raise exceptions.BadRequest(
                    f'{field}: must be given once in a request: only one resource can have it.',
                    field=field,
                )
            self._exclusive.add(owned)

    def find_requested(
        self, plugin: ResourcePlugin, lease_id: str, values: Mapping[str, Any]
    ) -> Sequence[model.Reservation]:
        """Return the reservations of a part of a request; empty if the lease does not have them.

        A group is returned as a whole, a member with its own id alone.
        """
        if plugin.resource_type not in self._types:
            return ()
        for key in plugin.request_keys(lease_id, values):
            found = self._by_key.get((plugin.resource_type, key), deque())
            while found and self._is_taken(found[0]):
                found.popleft()
            if found:
                if isinstance(plugin, Specified):
                    plugin.check_match(found[0], values)
                each = _check_staying(found[0])
                if provisioned_plugin.MADE_FOR in values:
                    return [dataclasses.replace(each, resource_id=values['resource_id'])]
                if each.group is None or 'resource_id' in values:
                    return [each]
                return self._groups[each.group]
        return ()

    def _is_taken(self, each: model.Reservation) -> bool:
        return bool(each.unit_kind or each.group) and each.id in self._found


@dataclasses.dataclass(frozen=True, slots=True)
class Reserver:
    """Create the reservations of a request, or find them in the present lease.

    :param conf: with the section ``[limits]``
    :param is_now: what is created for the lease is created with it
    """

    plugins: Mapping[str, ResourcePlugin]
    context: RequestContext
    lease_id: str
    now: datetime.datetime
    conf: cfg.ConfigOpts
    present: model.Lease | None = None
    is_now: bool = False

    def reserve_items(
        self,
        listed: Iterable[Mapping[str, Any]],
        errors: ErrorCollector = RAISE_FIRST,
        field: str = 'reservations',
    ) -> tuple[tuple[Item, ...], tuple[model.Reservation, ...]]:
        """Request the reservations from the plugins.

        :param listed: the parts of the request
        :param field: the field with the parts; empty if one reservation is the whole request
        :returns: the new reservations, and those that the lease has, with the resource that was
            created for them
        :raises climate_core.exceptions.ClimateError: a resource cannot be reserved, or is named
            twice; ``errors`` may collect it. The check stops when a maximum is exceeded.
        """
        most = self.conf.limits.lookups_per_request
        try:
            with Lookups(most).used():
                return self._reserve_each(listed, errors, field)
        except TooManyLookups:
            message = (
                f'reservations: checking them needs more than {most} requests to other services, '
                'which is the maximum. Split the request, or use equal flavors and images.'
            )
            errors.add(exceptions.BadRequest(message, field='reservations'))
            return (), ()

    def _reserve_each(
        self, listed: Iterable[Mapping[str, Any]], errors: ErrorCollector, field: str
    ) -> tuple[tuple[Item, ...], tuple[model.Reservation, ...]]:
        held = _HeldReservations(self.plugins, self.present)
        items: dict[model.ResourceKey, Item] = {}
        found: list[model.Reservation] = []
        budget = ReservationBudget(self.present, self.conf.limits.reservations_per_lease)
        for place, values in enumerate(listed):
            check_deadline()
            where = f'{field}[{place}]' if field else ''
            with errors.collected():
                with prefix_field(where):
                    if provisioned_plugin.MADE_FOR in values:
                        # It joins alone, as a service requests it.
                        provisioned_plugin.check_made_for(
                            self.context, None if where else self.present
                        )
                    reservations = self._find_or_reserve(values, held)
                for new in reservations:
                    if new in held:
                        held.note(new)
                        found.append(new)
                    elif new.key in items:
                        raise exceptions.BadRequest(
                            'reservations: must name each resource only once.',
                            field='reservations',
                        )
                    else:
                        budget.take(new)
                        items[new.key] = Item(new, values, where)
            if budget.is_exceeded:
                break
        return tuple(items.values()), tuple(found)

    def _find_or_reserve(
        self, values: Mapping[str, Any], held: _HeldReservations
    ) -> Sequence[model.Reservation]:
        """Return the reservations that the lease has already, or those that the plugin grants.

        The lease comes first: an active resource cannot be reserved again.
        """
        plugin = self.plugins.get(str(values.get('resource_type')))
        if plugin is None:
            known = ', '.join(resource_types.api_names(self.plugins)) or 'none'
            raise exceptions.UnknownResourceType(
                f'resource_type must be one of the types that are enabled ({known}), not '
                f'{values.get("resource_type")!r}.',
                field='resource_type',
            )
        present = held.find_requested(plugin, self.lease_id, values)
        if present:
            return present
        if self.present is not None:
            check_owner(plugin, self.present, self.context, _named(values))
        if isinstance(plugin, Specified):
            held.check_exclusive(plugin, values)
        claimed = plugin.reserve(self.context, values, self.lease_id)
        if self.is_now and isinstance(plugin, Specified):
            plugin.check_now(self.context, values)
        new = [
            each.to_reservation(self.lease_id, plugin.resource_type, self.now)
            for each in (claimed, *claimed.others)
        ]
        # The plugin may have resolved another name of a resource of the lease.
        return [find_held(held.by_resource, each.key) or each for each in new]


def check_owner(
    plugin: ResourcePlugin, lease: model.Lease, context: RequestContext, field: str
) -> None:
    """Reject values that Climate would execute with the rights of another user.

    Administrators are other users, too, and so is a token that stands for less than the owner. See
    "Whose rights" in the contributor documentation.

    :param field: the field of the request with such a value
    :raises climate_core.exceptions.Forbidden: the lease has another owner, or its trust has more
        roles than the token
    :raises climate_core.exceptions.ServiceUnavailable: Keystone does not answer
    """
    if not plugin.wakes_as_owner:
        return
    if lease.user_id != context.user_id:
        raise exceptions.Forbidden(
            f'{field}: must be given with a lease of your own. Climate works on a '
            f'{plugin.title.lower()} with the rights of the owner of lease {lease.id}.',
            field=field,
        )
    trust_id = lease.trust_id
    if not context.is_delegated or trust_id is None or trust_id == context.trust_id:
        return
    # Application credentials, trusts and OAuth may stand for less than their user. Keystone checks
    # them when a lease is created, since they create its trust.
    held = {*(context.role_ids or {}).values()}
    with cloud_errors.for_user(field):
        roles = plugin.cloud.owner_roles(trust_id)
    lacking = sorted(name for role_id, name in roles.items() if role_id not in held)
    if lacking:
        raise exceptions.Forbidden(
            f'{field}: must be given with a lease created with this token, or with a token that '
            f'has the roles {", ".join(lacking)}, with which Climate works for lease {lease.id}.',
            field=field,
        )


def _named(values: Mapping[str, Any]) -> str:
    """Return the property by which a request names what it reserves."""
    given = values.keys() - {'resource_type'}
    return 'resource_id' if 'resource_id' in given or not given else min(given)


def find_held(
    held: Mapping[model.ResourceKey, model.Reservation], what: model.ResourceKey
) -> model.Reservation | None:
    """Return the reservation of a claimed resource.

    :raises climate_core.exceptions.ResourceReserved: it is being removed
    """
    found = held.get(what)
    return None if found is None else _check_staying(found)


def _check_staying(found: model.Reservation) -> model.Reservation:
    if found.status == states.ReservationStatus.DELETING:
        raise exceptions.ResourceReserved(
            f'{found.resource_type} {found.resource_id} is being removed from this lease; retry '
            'when it is removed.',
            field='resource_id',
        )
    return found


# The kinds of leases: which resources a lease of each kind may have.

#: Kinds of leases that claim nothing until the calendar allocates it, or it is created.
_CALENDAR_KINDS: Final = frozenset({LeaseKind.SCHEDULED, LeaseKind.RETRY, LeaseKind.BEST_EFFORT})


def may_be_best_effort(types: Sequence[str]) -> bool:
    """Return whether a lease of these types of resources may be of the kind best_effort."""
    evacuated = {
        resource_type
        for each in packages.list_packages()
        for resource_type in each.best_effort_types
    }
    return len(types) == 1 and types[0] in evacuated


def creates_now(kind: str | None, start: datetime.datetime, now: datetime.datetime) -> bool:
    """Return whether servers of a lease are created when they are requested.

    Servers of the kind ``retry`` may be queued.
    """
    return kind != LeaseKind.RETRY and (kind != LeaseKind.SCHEDULED or start <= now)


def choose_kind(kind: str | None, items: Sequence[Item]) -> str:
    """Return the kind of a lease.

    :param kind: the kind of the request; None: ``scheduled`` if the calendar allocates all of its
        items, else ``immediate``
    :param items: the items of the request
    :raises climate_core.exceptions.BadRequest: a lease of that kind cannot have these resources
    """
    made = [each for each in items if each.reservation.group]
    held = [each for each in items if each.reservation.unit_kind is None and each not in made]
    if kind is None:
        return LeaseKind.SCHEDULED if items and not (held or made) else LeaseKind.IMMEDIATE
    if kind not in _CALENDAR_KINDS:
        return kind
    if kind == LeaseKind.SCHEDULED:
        stacks = [each for each in held if each.reservation.parts is not None]
        _check_stacks(stacks)
        held = [each for each in held if each not in stacks]
    types = [each.reservation.resource_type for each in items]
    if kind == LeaseKind.BEST_EFFORT and not may_be_best_effort(types):
        raise exceptions.BadRequest(
            'A lease of the kind best_effort must request hosts, in one reservation, and '
            'nothing else.',
            field='kind',
        )
    if not items:
        retry = kind == LeaseKind.RETRY
        may_be_made = 'servers or volumes' if retry else 'servers, volumes or stacks'
        raise exceptions.BadRequest(
            f'A lease of the kind {kind} must request hosts, capacity, floating IPs or '
            f'networks, or {may_be_made} that are created for it.',
            field='kind',
        )
    if held:
        _reject_held(held[0], kind)
    if made and kind == LeaseKind.RETRY and len(made) < len(items):
        raise exceptions.BadRequest(
            f'{made[0].field}: a resource created for a lease needs the kind immediate or '
            'scheduled, or retry if all resources are created for the lease.',
            field='kind',
        )
    return kind


def fit_items(kind: str, items: Sequence[Item]) -> tuple[Item, ...]:
    """Return items without the params that a lease of a kind does not have.

    In a scheduled lease a stack is neither claimed now nor created at the start.
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
                'stack is created shortly before the start.',
                field=field,
            )


def _reject_held(item: Item, kind: str) -> NoReturn:
    """Reject a resource that exists already, or that cannot be scheduled.

    :raises climate_core.exceptions.BadRequest: always
    """
    if item.reservation.parts is not None:
        raise exceptions.BadRequest(
            f'{item.field}: a stack that is created from a template can be in a lease of the kind '
            f'immediate or scheduled, not {kind}.',
            field='kind',
        )
    shown = resource_types.api_name(item.reservation.resource_type)
    raise exceptions.BadRequest(
        f'{item.field} ({shown}) is not allocated by the calendar, so the kind must be immediate; '
        f'{kind} is for hosts, capacity, floating IPs and networks.',
        field='kind',
    )
