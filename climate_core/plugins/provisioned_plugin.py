# SPDX-License-Identifier: Apache-2.0
"""Create a resource for its lease, with the rights of the owner, as the owner would.

It waits for its lease as a resource of a user does, with the same rules. The intention to create
it is stored first, and it is searched by a mark before it is requested: however often a manager
dies, there is only one.

The service that builds a resource reports what it holds. If the lease service requested that, both
would wait for each other: all threads of nova-api for the lease service (the check of the hints),
and the lease service for nova-api.

A resource that its service has lost is recreated. First the reservation is detached from it, so
that its deletion is not recorded as a loss.
"""

import abc
import contextlib
import dataclasses
import datetime
import uuid
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from oslo_utils import uuidutils

from climate_common import hints
from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.lease import model
from climate_core.plugins import parent_stacks, prebuilt_plugin, resource_spec
from climate_core.plugins.base import NotOfLease, PollAgain, ReservedResource
from climate_core.plugins.capabilities import Reported, Specified
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
    from climate_core.cloud import connections
    from climate_core.context import RequestContext
    from climate_core.lease.model import Lease, Reservation

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
        'description': 'What the resource holds. Only the service that builds it may report it, '
        'with a service token. It is verified later.',
        'properties': dict.fromkeys(units, amount),
        'required': list(units),
        'additionalProperties': False,
    }
    return {_AMOUNTS_KEY: amounts}


def reported_amounts(
    context: 'RequestContext', values: Mapping[str, Any]
) -> dict[str, int] | None:
    """Return what a resource holds, by unit; None if that was not reported.

    :param values: a reservation of the request; it has passed the schema
    :raises climate_core.exceptions.BadRequest: the request does not come from a service
    """
    if _AMOUNTS_KEY not in values:
        return None
    if not context.by_service:
        raise exceptions.BadRequest(
            'amounts: only a service that builds the resource may say what it holds, with a '
            'service token that has the role service. Leave it out.',
            field=_AMOUNTS_KEY,
        )
    return {unit: int(amount) for unit, amount in values[_AMOUNTS_KEY].items()}


class ProvisionedPlugin(prebuilt_plugin.PrebuiltPlugin, Specified, Reported):
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
        wanted: Mapping[str, Any],
        params: Mapping[str, Any],
    ) -> ReservedResource:
        """Check a specification and reserve its resources, see ``resource_spec.reserve_group``."""

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
    def _watch(self, context: StepContext, found: Mapping[str, Any]) -> PollAgain | None:
        """Poll a created resource until it is reserved.

        :raises climate_core.exceptions.Permanent: it could not be created
        """

    @abc.abstractmethod
    def _delete_lost(self, context: StepContext, found: Mapping[str, Any]) -> PollAgain:
        """Delete a resource that its reservation was detached from, or wait until it is gone."""

    @abc.abstractmethod
    def _failed(self, reservation: 'Reservation', reason: str) -> str:
        """Return for users what could not be created, and why."""

    @abc.abstractmethod
    def _read_reservable(self, context: 'RequestContext', resource_id: str) -> Any:
        """Return a resource of the user's project; None if it is not, or is being deleted."""

    @abc.abstractmethod
    def _is_reservation(self, found: Any, context: 'RequestContext') -> bool:
        """Return whether a resource is reserved, or is being created so."""

    @staticmethod
    @abc.abstractmethod
    def _amounts(found: Any) -> dict[str, int]:
        """Return what a resource holds, by unit."""

    def reserve(
        self, context: 'RequestContext', values: Mapping[str, Any], lease_id: str = ''
    ) -> ReservedResource:
        if not resource_spec.is_requested(values, self.key, self.waiting):
            if resource_spec.MADE_FOR in values:
                raise exceptions.InvalidState(
                    f'made_for: the lease has no reservation that waits for this {self.key}.',
                    field=resource_spec.MADE_FOR,
                )
            return self._reserve_existing(context, values)
        said = resource_spec.compute_digests(self.conf, lease_id, values[self.key], self.key)
        params = {**self._params(values), resource_spec.DIGEST_KEY: said[0]}
        return self._claim(context, lease_id, values[self.key], params)

    def _reserve_existing(
        self, context: 'RequestContext', values: Mapping[str, Any]
    ) -> ReservedResource:
        params, amounts = self._params(values), reported_amounts(context, values)
        if amounts is not None:
            # As its service writes it.
            resource_id = str(uuid.UUID(values['resource_id']))
            params[model.REPORTED] = True
        else:
            found = self._check(context, values['resource_id'])
            resource_id, amounts = found['id'], self._amounts(found)
        parent_id = values.get(parent_stacks.STACK_ID_KEY)
        return ReservedResource(resource_id, params, amounts, parent_id=parent_id)

    def amounts(self, params: Mapping[str, Any]) -> Mapping[str, int] | None:
        return params.get(resource_spec.HOLDS)

    def request_keys(self, lease_id: str, values: Mapping[str, Any]) -> Sequence[Hashable]:
        if self.key not in values:
            keys = super().request_keys(lease_id, values)
            return [*resource_spec.request_keys(values, ()), *keys]
        said = resource_spec.compute_digests(self.conf, lease_id, values[self.key], self.key)
        return resource_spec.request_keys(values, said)

    def reservation_keys(self, reservation: 'Reservation') -> Sequence[Hashable]:
        keys = super().reservation_keys(reservation)
        if reservation.group is None:
            return keys
        return [*resource_spec.reservation_keys(reservation, self.key), *keys]

    def make(
        self,
        context: 'RequestContext',  # noqa: ARG002
        lease_id: str,  # noqa: ARG002
        values: Mapping[str, Any],
        claimed: ReservedResource,
    ) -> ReservedResource:
        if self.key not in values:
            return claimed
        lead = datetime.timedelta(seconds=self.conf[self.resource_type].lead_seconds)
        return dataclasses.replace(claimed, prepare=True, prepare_before=lead)

    def prepare(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | None:
        if reservation.is_made:
            return self._take_step(self._watch, lease, reservation)
        return self._make(self._step(lease, reservation))

    def rollback_prepare(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | None:
        params = {**reservation.params, 'on_end': 'delete'}
        return self.end(lease, dataclasses.replace(reservation, params=params))

    def _make(self, context: StepContext) -> PollAgain:
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
        told = 'it is deleted and made again.'
        repair = RepairStep('make_again', told, lambda: None, command, asked=_RECREATE)
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
        # Before one is made again no request is on its way.
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

    def _waits_for(self, found: Any, lease_id: str) -> bool:  # noqa: ARG002
        """Return whether a resource was created for a lease, as far as its service shows it."""
        return True

    def _check(self, context: 'RequestContext', wanted: str) -> Any:
        """Return a resource of the project that can be reserved."""
        noun = self.title.lower()
        with errors.for_user('resource_id'):
            found = self._read_reservable(context, wanted)
            if found is None:
                raise errors.Gone(f'There is no {noun} {wanted} in this project.')
        if not self._is_reservation(found, context):
            raise exceptions.BadRequest(
                f'The {noun} {wanted} is {found["status"]}. Only a {noun} that was created with '
                'the hint reserved=True and was not started yet can be reserved.',
                field='resource_id',
            )
        return found
