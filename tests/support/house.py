# SPDX-License-Identifier: Apache-2.0
"""A host with room for a few servers, and a manager that leases them."""

from collections.abc import Mapping
from typing import Any

import pytest

from climate_common.resource_types import SERVER
from climate_core import exceptions
from climate_core.cloud import servers
from climate_core.context import RequestContext
from climate_core.lease import model
from climate_core.operations import pool_forecast, server_preemption
from climate_core.plugins import provisioned_plugin
from climate_core.plugins.base import PollAgain, Preemptible, ReservedResource, Specified
from climate_core.plugins.forecast import Nouns
from climate_core.plugins.server_placement import RunningServer, TargetHost
from tests.support.created import get_id
from tests.support.world import Time, World, user

SIZE = 4
END = '2082-12-03 12:00'


class Death(BaseException):
    """A manager that dies."""


class Guests(Preemptible, Specified):
    """Servers that are made for leases, of which a host has room for a few.

    :ivar inside: the ids of those that hold room
    :ivar stuck: the ids of those that Nova does not shelve now
    :ivar left: how many calls a manager makes before it dies; None: it lives
    """

    resource_type = SERVER
    title = 'Guests'
    description = 'Servers of the tests'
    schema = {'server': {'type': 'object'}}

    def __init__(self) -> None:
        self.inside: set[str] = set()
        self.shelved: set[str] = set()
        self.stuck: set[str] = set()
        self.left: int | None = None

    def reserve(
        self, context: RequestContext, values: Mapping[str, Any], lease_id: str = ''
    ) -> ReservedResource:
        return provisioned_plugin.reserve_group('server', values['server'], {}, {'vcpus': 1})

    def amounts(self, params: Mapping[str, Any]) -> Mapping[str, int] | None:
        return params.get(model.HOLDS)

    def make(
        self,
        context: RequestContext,
        lease_id: str,
        values: Mapping[str, Any],
        claimed: ReservedResource,
    ) -> ReservedResource:
        return ReservedResource(claimed.resource_id, claimed.params, claimed.amounts, prepare=True)

    def prepare(self, lease: model.Lease, reservation: model.Reservation) -> PollAgain | None:
        if not reservation.is_made:
            name = f'server-{reservation.id}'
            if len({*self.inside, name}) <= SIZE:
                self.inside.add(name)
            self._die()
            return PollAgain(0.0, resource_id=name)
        if reservation.resource_id not in self.inside:
            raise exceptions.NoCapacity('No valid host was found.')
        return None

    def start(self, lease: model.Lease, reservation: model.Reservation) -> None:
        if reservation.resource_id in self.shelved:
            try:
                self._take(reservation.resource_id)
            except exceptions.NoCapacity as exc:
                raise exceptions.Transient(str(exc)) from exc
            self.shelved.discard(reservation.resource_id)

    def preempt(self, lease: model.Lease, reservation: model.Reservation) -> None:
        if reservation.resource_id in self.stuck:
            raise exceptions.Transient('Nova does not answer.')
        self.shelved.add(reservation.resource_id)
        self._leave(reservation.resource_id)

    def end(self, lease: model.Lease, reservation: model.Reservation) -> None:
        self.shelved.discard(reservation.resource_id)
        self._leave(reservation.resource_id)
        self._leave(f'server-{reservation.id}')

    def _take(self, name: str) -> None:
        if name not in self.inside:
            if len(self.inside) == SIZE:
                raise exceptions.NoCapacity('No valid host was found.')
            self.inside.add(name)
        self._die()

    def _leave(self, name: str) -> None:
        self.inside.discard(name)
        self._die()

    def _die(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise Death


class Hall:
    """The room of the host as the forecast sees it; it is its own connection."""

    nouns = Nouns()

    def __init__(self, guests: Guests) -> None:
        free = {'VCPU': SIZE - len(guests.inside)}
        self.hosts = [TargetHost(name='host1', free=free)]
        self.places = dict.fromkeys(guests.inside, 'host1')

    def demand(self, name: str, _: Any, amounts: Mapping[str, int]) -> RunningServer:
        if not amounts:
            raise exceptions.BadRequest('The demand of the server on its host is not known.')
        return RunningServer(id=name, amounts={'VCPU': 1})

    def released(self, _: Mapping[str, int]) -> Mapping[str, int]:
        return {'VCPU': 1}


class Service:
    """Gives the guests in place of connections."""

    def __init__(self, guests: Guests) -> None:
        self.guests = guests

    def service(self) -> Guests:
        return self.guests


class House:
    """A manager with guests, in memory."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        patch.setitem(pool_forecast._CAPACITY_READERS, SERVER, Hall)  # type: ignore[arg-type]
        patch.setattr(server_preemption, 'CommonHostCapacity', Hall)
        shown = {'status': 'ACTIVE'}
        patch.setattr(servers, 'get', lambda _conn, _server_id: shown)
        self.time = Time()
        self.world = World('sqlite://', self.time)
        self.world.conf.set_override('preemption_notice', 30, group='queue')
        self.world.conf.set_override('retry_interval', 60, group='queue')
        self.guests = Guests()
        self.world.plugins[SERVER] = self.guests
        operations = self.world.operations
        cloud: Any = Service(self.guests)
        operations.services.cloud = cloud

    def lease(
        self, count: int, preemptible: bool = False, project: str = 'project1', **more: Any
    ) -> str:
        wanted = {'name': 'web', 'count': count}
        body = {'name': 'lease', 'start_date': 'now', 'end_date': END, 'preemptible': preemptible}
        body['reservations'] = [{'resource_type': SERVER, 'server': wanted}]
        lease_id = get_id(
            self.world.operations.creator.create_lease(user(project), {**body, **more})
        )
        self.time.forward(seconds=1)
        return str(lease_id)

    def settle(self, minutes: int = 8) -> None:
        """Do what is due, also after a manager died."""
        for _ in range(minutes):
            try:
                self.world.operations.queue.grant_waiting()
                self.world.run_until_idle(minutes=1)
            except Death:
                self.time.forward(seconds=self.world.conf.engine.claim_ttl + 1)

    def status(self, *ids: str) -> list[str]:
        return [self.world.lease(each).status for each in ids]

    def end(self, lease_id: str) -> None:
        self.world.operations.end_lease(user(), lease_id)
