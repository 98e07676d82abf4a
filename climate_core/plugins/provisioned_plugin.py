# SPDX-License-Identifier: Apache-2.0
"""Create a resource for its lease, with the rights of the owner, as the owner would.

It waits for its lease as a resource of a user does, with the same rules. The intention to create
it is stored first, and it is searched by a mark before it is requested: however often a manager
dies, there is only one.

Each resource is a reservation; those of one part of the request are a group. Each stores the short
values of the specification. Its objects and lists, as metadata and block devices, are stored once,
with the first of the group, whose row stays as long as the lease.

The service that builds a resource reports its amounts. If the lease service requested them, both
would wait for each other: all threads of nova-api for the lease service (the check of the hints),
and the lease service for nova-api.

A resource that its service has lost is recreated. First the reservation is detached from it, so
that its deletion is not recorded as a loss.
"""

import abc
import contextlib
import dataclasses
import uuid
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from oslo_utils import uuidutils

from climate_common import hints, limits, sealing
from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.conf import secrets
from climate_core.lease import model
from climate_core.plugins import own_service_plugin
from climate_core.plugins.base import NotOfLease, PollAgain, Reported, ReservedResource
from climate_core.plugins.step_context import (
    END,
    NO_DELAY,
    EndContext,
    Progress,
    RepairStep,
    StepContext,
    wait_or_repair,
)

if TYPE_CHECKING:
    from oslo_config import cfg

    from climate_core.cloud import connections
    from climate_core.context import RequestContext
    from climate_core.lease.model import Lease, Reservation

#: The property with the reservation for which a resource was created.
MADE_FOR: Final = 'made_for'
#: The key of the digest of its specification in the params of a reservation; never shown.
DIGEST_KEY: Final = '_said'
HOLDS: Final = model.HOLDS

#: What checks a source of volumes with the rights of the user, and the GiB that a volume made from
#: it needs.
SourceCheck = tuple[
    Callable[['connections.Connection', str], Mapping[str, Any]],
    Callable[[Mapping[str, Any]], int],
]

TEXT_SCHEMA: Final = {'type': 'string', 'minLength': 1, 'maxLength': limits.NAME_LENGTH}
#: A name, as Nova accepts it.
PRINTABLE_SCHEMA: Final = {**TEXT_SCHEMA, 'format': 'printable-name'}
UUID_SCHEMA: Final = {'type': 'string', 'format': 'uuid'}
NAME_DESCRIPTION: Final = {
    'description': 'Name of the resource; with a count above 1, -1, -2 and so on is appended.'
}
STORED_TEXT_SCHEMA: Final = {
    'type': 'string',
    'maxLength': limits.NAME_LENGTH,
    'pattern': limits.json_pattern(limits.STORED_PATTERN),
}
COUNT_SCHEMA: Final = {
    'type': 'integer',
    'minimum': 1,
    'maximum': limits.NEW_SERVERS,
    'description': 'Number of resources; by default 1.',
}


def metadata_schema(max_items: int, key_pattern: str) -> dict[str, Any]:
    """Return the schema of the metadata of a resource.

    :param max_items: items
    """
    return {
        'type': 'object',
        'maxProperties': max_items,
        'propertyNames': {'pattern': limits.json_pattern(key_pattern)},
        'additionalProperties': STORED_TEXT_SCHEMA,
    }


def made_for_schema(service: str, noun: str) -> dict[str, Any]:
    """Return the property of a reservation whose resource a service creates."""
    description = (
        f'The reservation for which the lease service creates the {noun}. {service} sets it; '
    )
    return {MADE_FOR: {**UUID_SCHEMA, 'description': f'{description}users leave it out.'}}


def is_requested(values: Mapping[str, Any], key: str, status: str) -> bool:
    """Return whether a part of a request has the specification of new resources.

    :param key: the property with the specification, which is also the noun for users
    :param status: that of an existing resource which can be reserved
    :raises climate_core.exceptions.BadRequest: it has neither an existing resource nor a
        specification, or both
    """
    if key in values and 'resource_id' in values:
        raise exceptions.BadRequest(
            f'Give the resource_id of an existing {key}, or the {key}s to create, not both.',
            field=key,
        )
    if key not in values and 'resource_id' not in values:
        raise exceptions.BadRequest(
            f'Give the resource_id of a {key} that is {status}, or specify in {key} what to '
            'create.',
            field='resource_id',
        )
    return key in values


def reserve_group(
    key: str,
    spec: Mapping[str, Any],
    params: Mapping[str, Any],
    amounts: Mapping[str, int],
    hidden: tuple[str, ...] = (),
) -> ReservedResource:
    """Reserve the resources of a part of a request.

    :param spec: their specification, with ``name`` and perhaps ``count``
    :param params: what each reservation stores besides
    :param amounts: the amounts of each, by unit
    :param hidden: the fields of the specification that are not stored
    :raises climate_core.exceptions.BadRequest: the names of several are too long
    """
    shown = {name: each for name, each in spec.items() if name not in (*hidden, 'count')}
    short = {name: each for name, each in shown.items() if not isinstance(each, dict | list)}
    own = {model.GROUP: uuidutils.generate_uuid(), HOLDS: dict(amounts)}
    count, claims = spec.get('count', 1), []
    longest = limits.NAME_LENGTH - len(f'-{count}')
    if count > 1 and len(spec['name']) > longest:
        raise exceptions.BadRequest(
            f'{key}.name: must have {longest} characters at most, because -1 to -{count} is added '
            'to it.',
            field=f'{key}.name',
        )
    for number in range(1, count + 1):
        name = spec['name'] if count == 1 else f'{spec["name"]}-{number}'
        stored_spec = shown if number == 1 else short
        stored_params = {**params, **own, key: {**stored_spec, 'name': name}}
        claims.append(
            ReservedResource(f'{model.UNMADE}{uuidutils.generate_uuid()}', stored_params, amounts)
        )
    return dataclasses.replace(claims[0], others=claims[1:])


def read_unsealed_spec(lease: 'Lease', reservation: 'Reservation', key: str) -> dict[str, Any]:
    """Return the whole specification of a reservation, to create its resource.

    :raises climate_core.exceptions.Transient: no key of the operator unseals its metadata
    """
    found = merge_spec(lease, reservation, key)
    if isinstance(found.get('metadata'), sealing.Unopened):
        raise exceptions.Transient(
            'secret_keys of climate.conf has no key that opens its metadata: the operator must '
            'add it.'
        )
    return found


def merge_spec(lease: 'Lease', reservation: 'Reservation', key: str) -> dict[str, Any]:
    """Return the whole specification of a reservation, with what the first of its group stores.

    Also if that one has ended or was removed.
    """
    found: dict[str, Any] = {}
    for each in lease.reservations:
        if each.group == reservation.group:
            found |= each.params.get(key, {})
    return found | reservation.params[key]


def spec_request_keys(values: Mapping[str, Any], digests: Iterable[str]) -> list[Hashable]:
    """Return the keys of a requested resource; see ``ResourcePlugin.request_keys``.

    :param digests: the digests of the specification; empty if it has none
    """
    keys: list[Hashable] = []
    if MADE_FOR in values:
        reservation_key = MADE_FOR, values[MADE_FOR]
        keys += [reservation_key, (*reservation_key, values.get('resource_id'))]
    return [*keys, *((DIGEST_KEY, each) for each in digests)]


def check_made_for(context: 'RequestContext', lease: 'Lease | None') -> None:
    """Reject a resource that was not created by the lease service for a reservation.

    :param lease: that the resource is to join; None: it is not one that exists
    :raises climate_core.exceptions.InvalidState: the request has no token of the lease's trust
    """
    trust_id = context.trust_id
    if lease is None or trust_id is None or trust_id != lease.trust_id:
        raise exceptions.InvalidState(
            'made_for: the resource was not created by the lease service. Remove the scheduler '
            'hint climate_reservation, which only the lease service may use.',
            field=MADE_FOR,
        )


def spec_reservation_keys(reservation: 'Reservation', key: str) -> list[Hashable]:
    """Return the keys under which a request finds a reservation that is created for its lease.

    The first resource that names the reservation while it is requested becomes its resource.

    :param key: the recorded request of the reservation while its resource is requested
    """
    keys: list[Hashable] = [(DIGEST_KEY, reservation.params.get(DIGEST_KEY))]
    if reservation.is_made:
        keys.append((MADE_FOR, reservation.id, reservation.resource_id))
    elif (reservation.progress or {}).get('asked') == key:
        keys.append((MADE_FOR, reservation.id))
    return keys


def compute_digests(
    conf: 'cfg.ConfigOpts', lease_id: str, spec: Mapping[str, Any], field: str
) -> Sequence[str]:
    """Return the digests of a specification, see :func:`climate_common.sealing.digests`.

    :raises climate_core.exceptions.BadRequest: it is too long or too deep, naming the field
    """
    try:
        return sealing.digests(limits.encode(spec), lease_id, secrets.read_keys(conf))
    except (TypeError, ValueError) as exc:
        raise exceptions.BadRequest(f'It cannot be stored: {exc}.', field=field) from exc


#: The intention that is stored before a lost resource is deleted and recreated.
_RECREATE: Final = 'remake'
#: Seconds after which no resource comes of a request whose response was lost.
IN_FLIGHT_SECONDS: Final = 60.0

#: The property with the amounts of a reservation.
_AMOUNTS_KEY: Final = 'amounts'
#: Maximum amount of a unit that one resource holds.
_MAX_AMOUNT: Final = 2**31 - 1


def amounts_schema(*units: str) -> dict[str, Any]:
    """Return the property of a type of resource whose amounts have these units."""
    amount = {'type': 'integer', 'minimum': 0, 'maximum': _MAX_AMOUNT}
    amounts = {
        'type': 'object',
        'description': 'Amounts of the resource. Only the service that builds it may report them, '
        'with a service token. They are verified later.',
        'properties': dict.fromkeys(units, amount),
        'required': list(units),
        'additionalProperties': False,
    }
    return {_AMOUNTS_KEY: amounts}


def reported_amounts(
    context: 'RequestContext', values: Mapping[str, Any]
) -> dict[str, int] | None:
    """Return the amounts of a resource by unit; None if they were not reported.

    :param values: a reservation of the request; it has passed the schema
    :raises climate_core.exceptions.BadRequest: the request does not come from a service
    """
    if _AMOUNTS_KEY not in values:
        return None
    if not context.by_service:
        raise exceptions.BadRequest(
            'amounts: only a service that builds the resource may report its amounts, with a '
            'service token that has the role service. Leave it out.',
            field=_AMOUNTS_KEY,
        )
    return {unit: int(amount) for unit, amount in values[_AMOUNTS_KEY].items()}


class ProvisionedPlugin(own_service_plugin.CreatedForLeasePlugin, Reported):
    """Reserve resources that their service creates reserved because of a hint.

    Users create them so, or the lease service does for the lease.
    """

    required = ()
    #: The property of a reservation with the specification; it is also the name of the intention.
    key: ClassVar[str]
    #: The status of a resource that can be reserved.
    waiting: ClassVar[str]

    @abc.abstractmethod
    def _claim(
        self,
        context: 'RequestContext',
        lease_id: str,
        spec: Mapping[str, Any],
        params: Mapping[str, Any],
    ) -> ReservedResource:
        """Check a specification and reserve its resources, see :func:`reserve_group`."""

    @abc.abstractmethod
    def _find(
        self, conn: 'connections.Connection', reservation: 'Reservation', all_projects: bool
    ) -> Iterator[str]:
        """Yield the ids of resources whose mark, which any user may set, names a reservation.

        :param all_projects: search all projects, which administrators may
        """

    @abc.abstractmethod
    def _create(self, context: StepContext, asked_by: Mapping[str, str]) -> str:
        """Request the resource of a reservation; return its id.

        :param asked_by: the hints
        :raises climate_core.exceptions.Permanent: its service rejects it
        :raises climate_core.cloud.errors.Gone: something that it needs does not exist
        """

    @abc.abstractmethod
    def _watch(self, context: StepContext, resource: Mapping[str, Any]) -> PollAgain | None:
        """Poll a created resource until it is reserved.

        :raises climate_core.exceptions.Permanent: it could not be created
        """

    @abc.abstractmethod
    def _delete_lost(self, context: StepContext, resource: Mapping[str, Any]) -> PollAgain:
        """Delete a resource that its reservation was detached from, or wait until it is gone."""

    @abc.abstractmethod
    def _failed(self, reservation: 'Reservation', reason: str) -> str:
        """Return the reason, for users, why a resource could not be created."""

    @abc.abstractmethod
    def _read_reservable(self, context: 'RequestContext', resource_id: str) -> Any:
        """Return a resource of the user's project; None if it is not, or is being deleted."""

    @abc.abstractmethod
    def _is_reservation(self, resource: Any, context: 'RequestContext') -> bool:
        """Return whether a resource is reserved, or is being created so."""

    @staticmethod
    @abc.abstractmethod
    def _amounts(resource: Any) -> dict[str, int]:
        """Return what a resource holds, by unit."""

    def reserve(
        self, context: 'RequestContext', values: Mapping[str, Any], lease_id: str = ''
    ) -> ReservedResource:
        if not is_requested(values, self.key, self.waiting):
            if MADE_FOR in values:
                raise exceptions.InvalidState(
                    f'made_for: the lease has no reservation that waits for this {self.key}.',
                    field=MADE_FOR,
                )
            return self._reserve_existing(context, values)
        digests = compute_digests(self.conf, lease_id, values[self.key], self.key)
        params = {**self._normalized_params(values), DIGEST_KEY: digests[0]}
        return self._claim(context, lease_id, values[self.key], params)

    def _reserve_existing(
        self, context: 'RequestContext', values: Mapping[str, Any]
    ) -> ReservedResource:
        params, amounts = self._normalized_params(values), reported_amounts(context, values)
        if amounts is not None:
            # As its service writes it.
            resource_id = str(uuid.UUID(values['resource_id']))
            params[model.REPORTED] = True
        else:
            found = self._check(context, values['resource_id'])
            resource_id, amounts = found['id'], self._amounts(found)
        parent_id = values.get(own_service_plugin.STACK_ID_KEY)
        return ReservedResource(resource_id, params, amounts, parent_id=parent_id)

    def amounts(self, params: Mapping[str, Any]) -> Mapping[str, int] | None:
        return params.get(HOLDS)

    def request_keys(self, lease_id: str, values: Mapping[str, Any]) -> Sequence[Hashable]:
        if self.key not in values:
            keys = super().request_keys(lease_id, values)
            return [*spec_request_keys(values, ()), *keys]
        digests = compute_digests(self.conf, lease_id, values[self.key], self.key)
        return spec_request_keys(values, digests)

    def reservation_keys(self, reservation: 'Reservation') -> Sequence[Hashable]:
        keys = super().reservation_keys(reservation)
        if reservation.group is None:
            return keys
        return [*spec_reservation_keys(reservation, self.key), *keys]

    def make(
        self,
        context: 'RequestContext',  # noqa: ARG002
        lease_id: str,  # noqa: ARG002
        values: Mapping[str, Any],
        reserved: ReservedResource,
    ) -> ReservedResource:
        if self.key not in values:
            return reserved
        return dataclasses.replace(reserved, prepare=True, prepare_before=self._lead_time)

    def prepare(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | None:
        if reservation.is_made:
            return self._take_step(self._watch, lease, reservation)
        return self._create_once(self._step(lease, reservation))

    def _create_once(self, context: StepContext) -> PollAgain:
        """Take the next step to a resource that does not exist yet."""
        reservation = context.reservation
        if context.progress.asked == _RECREATE:
            return self._recreate_lost(context)
        if context.progress.asked != self.key:
            return context.rest() or context.intend(self.key)
        found = self._find_made(context)
        if found is None:
            asked_by = {
                hints.RESERVED: 'True',
                hints.LEASE_ID: context.lease.id,
                hints.MADE_FOR: reservation.id,
            }
            try:
                found = self._create(context, asked_by)
            except (errors.Gone, exceptions.Permanent) as exc:
                raise exceptions.Permanent(self._failed(reservation, str(exc))) from exc
        progress = context.progress.with_request('build', context.now).dump()
        return PollAgain(NO_DELAY, None, progress, resource_id=found)

    def _find_made(self, context: StepContext) -> str | None:
        """Return the id of what was created for a reservation in the project of its lease."""
        found = self._find(context.conn, context.reservation, context.as_service)
        if not context.as_service:
            return next(found, None)
        for each in found:
            with contextlib.suppress(errors.Gone):
                shown = self.calls.get(context.conn, each)
                if self.calls.read_project(shown) == context.lease.project_id:
                    return each
        return None

    def _wait_for_build(
        self, context: StepContext, doing: str, minutes: int, command: str
    ) -> PollAgain:
        """Wait for a build that its service has not started; detach a resource that is lost.

        :param doing: a description for users
        :param minutes: until it counts as lost
        :param command: for an operator, if the service may not delete it
        """
        outcome = 'it is deleted and recreated.'
        repair = RepairStep('make_again', outcome, command, request_name=_RECREATE)
        waited = wait_or_repair(context, doing, 60 * minutes, repair)
        if waited.repair is None:
            return waited
        unmade = f'{model.UNMADE}{uuidutils.generate_uuid()}'
        return dataclasses.replace(waited, seconds=NO_DELAY, resource_id=unmade)

    def _recreate_lost(self, context: StepContext) -> PollAgain:
        """Delete a resource that its reservation was detached from, then create another one."""
        found = self._find_made(context)
        if found is None:
            return context.intend(self.key)
        own = dataclasses.replace(context.reservation, resource_id=found)
        context = dataclasses.replace(context, reservation=own)
        return self._delete_lost(context, self.calls.get(context.conn, found))

    def _end_uncreated(self, context: EndContext) -> PollAgain | None:
        """Find the result of a request for a resource that is no longer wanted.

        :returns: None when no resource can come of it
        """
        stored = context.reservation.progress or {}
        if stored.get('asked') not in (self.key, _RECREATE):
            return None
        found = self._find_made(context)
        if found is not None:
            return PollAgain(NO_DELAY, None, Progress(END, context.now).dump(), resource_id=found)
        # No request is in progress before a resource is recreated.
        if stored['asked'] == _RECREATE or context.age >= IN_FLIGHT_SECONDS:
            return None
        return context.note(self.key).wait()

    def read_reported(
        self, lease: 'Lease', reservation: 'Reservation'
    ) -> Mapping[str, int] | None:
        conn = self.cloud.service()
        found = self._read_whole(conn, reservation.resource_id)
        if found is None:
            return None
        wrong = self._describe_foreign(conn, lease, reservation, found)
        if wrong is None and not self._waits_for(found, lease.id):
            wrong = (
                f'The {self.title.lower()} {reservation.resource_id} was not created for this '
                'lease.'
            )
        if wrong:
            raise NotOfLease(wrong)
        return self._amounts(found)

    def _read_whole(self, conn: 'connections.Connection', resource_id: str) -> Any:
        """Return a resource with all that :meth:`_waits_for` compares; None: not known now."""
        return self.calls.get(conn, resource_id)

    def _waits_for(self, resource: Any, lease_id: str) -> bool:  # noqa: ARG002
        """Return whether a resource was created for a lease, as far as its service shows it."""
        return True

    def _check(self, context: 'RequestContext', resource_id: str) -> Any:
        """Return a resource of the project that can be reserved."""
        noun = self.title.lower()
        with errors.for_user('resource_id'):
            resource = self._read_reservable(context, resource_id)
            if resource is None:
                raise errors.Gone(f'There is no {noun} {resource_id} in this project.')
        if not self._is_reservation(resource, context):
            raise exceptions.BadRequest(
                f'The {noun} {resource_id} is {resource["status"]}. Only a {noun} that was '
                'created with the hint reserved=True and was not started yet can be reserved.',
                field='resource_id',
            )
        return resource
