# SPDX-License-Identifier: Apache-2.0
"""What the suite needs to know about the place where a plugin works."""

import abc
import contextlib
import dataclasses
import datetime
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pytest
import requests

from climate_core import exceptions
from climate_core.cloud import Cloud
from climate_core.cloud.trusts import Trusts
from climate_core.context import RequestContext
from climate_core.lease import model
from climate_core.lease.model import Lease, Reservation
from climate_core.plugins.base import PollAgain, ReservedResource, ResourcePlugin
from climate_core.plugins.step_context import NO_DELAY
from tests.support import leases
from tests.support.world import Time

#: Looks after which something that should have happened did not.
LOOKS = 200
#: End action of a server that is left -> its status.
LEFT_SERVERS = {
    'stop': 'SHUTOFF',
    'shelve': 'SHELVED_OFFLOADED',
    'suspend': 'SUSPENDED',
    'nothing': 'ACTIVE',
}


class PluginWorld(abc.ABC):
    """A cloud with users, and a way to make and watch one type of resource."""

    cloud: Cloud
    trusts: Trusts
    #: Whether a resource waits to be woken; one that does not is not freed before its start.
    sleeps: ClassVar[bool] = True

    @abc.abstractmethod
    def plugin(self) -> ResourcePlugin:
        """Make a plugin that remembers nothing of earlier calls, as after a restart."""

    @abc.abstractmethod
    def user(self) -> RequestContext:
        """Return the user who owns the resources."""

    @abc.abstractmethod
    def stranger(self) -> RequestContext:
        """Return a user of another project."""

    @abc.abstractmethod
    def reservable(self, **params: Any) -> Mapping[str, Any]:
        """Make a resource that waits; return the reservation a user would ask for.

        :param params: the parameters of its end, which it must be good for
        """

    @abc.abstractmethod
    def running(self) -> Mapping[str, Any]:
        """Make a resource that was never reserved; return what a user would ask for."""

    def end_params(self) -> Sequence[Mapping[str, Any]]:
        """Return the parameters that choose each possible end."""
        return [{'on_end': name} for name in self.plugin().schema['on_end']['enum']]

    @abc.abstractmethod
    def awake(self, resource_id: str) -> bool:
        """Tell whether the resource runs."""

    @abc.abstractmethod
    def wakes(self, resource_id: str) -> int:
        """Count how often it was accepted that the resource be woken."""

    @abc.abstractmethod
    def gone(self, resource_id: str) -> bool:
        """Tell whether nothing is left of the resource."""

    @abc.abstractmethod
    def ended(self, reservation: Reservation) -> bool:
        """Tell whether the resource is as its end action should leave it."""

    @abc.abstractmethod
    def destroy(self, resource_id: str) -> None:
        """Delete the resource as its owner would, and see it gone."""

    def owner_is_administrator(self) -> contextlib.AbstractContextManager[None]:
        """Let the user who owns the resources be an administrator of the cloud meanwhile."""
        pytest.skip('A real cloud keeps the roles of its users.')

    def give_away(self, resource_id: str) -> None:
        """Let the resource be of the project of the stranger."""
        pytest.skip(f'A real cloud keeps the project of {resource_id}.')

    @abc.abstractmethod
    def pause(self, seconds: float) -> None:
        """Let the cloud go on for this time."""

    @abc.abstractmethod
    def clean(self) -> None:
        """Remove what a test made, so that the next one has room."""

    def trust(self) -> str:
        """Make a trust of the user."""
        return self.trusts.create(self.user())

    def unreachable(self) -> contextlib.AbstractContextManager[None]:
        """Cut every connection to the cloud."""
        return self._sending(lambda _adapter: _NoWay())

    @contextlib.contextmanager
    def counted(self) -> Iterator[list[str]]:
        """Collect the requests that are sent meanwhile: ``'GET http://...'``."""
        sent: list[str] = []
        with self._sending(lambda adapter: _Counting(adapter, sent)):
            yield sent

    @contextlib.contextmanager
    def _sending(self, way: Callable[[Any], requests.adapters.BaseAdapter]) -> Iterator[None]:
        """Send what is sent to the cloud another way."""
        session = self.cloud._shared_session.session
        before = dict(session.adapters)
        for prefix, adapter in before.items():
            session.mount(prefix, way(adapter))
        try:
            yield
        finally:
            for prefix, adapter in before.items():
                session.mount(prefix, adapter)


class _NoWay(requests.adapters.BaseAdapter):
    def send(self, request: Any, **kwargs: Any) -> Any:
        raise requests.exceptions.ConnectionError('The test cut the connection.')

    def close(self) -> None:
        """Nothing is open."""


class _Counting(requests.adapters.BaseAdapter):
    def __init__(self, inner: Any, sent: list[str]) -> None:
        super().__init__()
        self._inner = inner
        self._sent = sent

    def send(self, request: Any, **kwargs: Any) -> Any:
        self._sent.append(f'{request.method} {request.url}')
        return self._inner.send(request, **kwargs)

    def close(self) -> None:
        self._inner.close()


def reservation_of(claimed: ReservedResource, resource_type: str, **fields: Any) -> Reservation:
    """Return what the database would give back for a claim; params went through JSON."""
    params = json.loads(json.dumps(dict(claimed.params)))
    now = datetime.datetime.now(datetime.UTC)
    lease_id, resource_id = str(uuid.uuid4()), claimed.resource_id
    new = model.new_reservation(lease_id, resource_type, resource_id, params, now)
    return dataclasses.replace(new, **fields)


def lease_of(reservation: Reservation, context: RequestContext, trust_id: str) -> Lease:
    """Return a lease that holds one reservation, due now."""
    now = datetime.datetime.now(datetime.UTC)
    return leases.lease(
        reservation,
        lease_id=reservation.lease_id,
        start=now,
        end=now + leases.HOUR,
        now=now,
        project_id=context.project_id,
        user_id=context.user_id,
        status='STARTING',
        trust_id=trust_id,
        events=(),
    )


def settle(call: Callable[[], PollAgain | None]) -> None:
    """Call until there is nothing to wait for."""
    for _ in range(LOOKS):
        answer = call()
        if answer is None:
            return
        assert answer.seconds > 0
    raise AssertionError(f'not settled after {LOOKS} looks')


@dataclasses.dataclass
class Case:
    """One reserved resource in its world."""

    world: PluginWorld
    plugin: ResourcePlugin
    lease: Lease
    reservation: Reservation
    time: Time = dataclasses.field(default_factory=Time)

    @property
    def resource_id(self) -> str:
        return self.reservation.resource_id

    @property
    def failures(self) -> int:
        return int((self.reservation.progress or {}).get('failures', 0))

    def wake_once(self, plugin: ResourcePlugin | None = None) -> PollAgain | None:
        """Take one step of the wake-up, as the engine does."""
        return self._step((plugin or self.plugin).start)

    def end_once(self, plugin: ResourcePlugin | None = None) -> PollAgain | None:
        """Take one step of the end, as the engine does."""
        return self._step((plugin or self.plugin).end)

    def preempt_once(self) -> PollAgain | None:
        """Take one step until others can have its capacity, as the engine does."""
        return self._step(self.plugin.preempt)

    def prepare_once(self) -> PollAgain | None:
        return self._step(self.plugin.prepare)

    def _step(self, method: Callable[[Lease, Reservation], PollAgain | None]) -> PollAgain | None:
        """Call a plugin; keep what it says, and let the time go on for which it waits."""
        method.__self__.now = self.time  # type: ignore[attr-defined]
        try:
            answer = method(self.lease, self.reservation)
        except exceptions.PluginFailure as exc:
            self._keep(exc.progress or self.reservation.progress)
            raise
        if answer is None:
            # As after a manager that died before it wrote that down.
            return None
        self._keep(answer.progress or self.reservation.progress)
        self.time.forward(answer.seconds)
        self.world.pause(answer.seconds)
        # What only has to be written down is no look of its own.
        return self._step(method) if answer.seconds <= NO_DELAY else answer

    def _keep(self, progress: Mapping[str, Any] | None) -> None:
        kept = None if progress is None else json.loads(json.dumps(dict(progress)))
        old = self.reservation
        self.reservation = dataclasses.replace(old, progress=kept)
        here = [self.reservation if r.id == old.id else r for r in self.lease.reservations]
        self.lease = dataclasses.replace(self.lease, reservations=tuple(here))

    def wake(self, plugin: ResourcePlugin | None = None) -> None:
        settle(lambda: self.wake_once(plugin))

    def woken(self) -> None:
        """Wake it and note it, as the engine does."""
        self.wake()
        self.reservation = dataclasses.replace(self.reservation, status='active', progress=None)

    def end(self, plugin: ResourcePlugin | None = None) -> None:
        settle(lambda: self.end_once(plugin))


def reserved(world: PluginWorld, **params: Any) -> Case:
    """Make a resource and reserve it, or the one whose id is given."""
    plugin = world.plugin()
    made = {} if 'resource_id' in params else world.reservable(**params)
    claimed = plugin.reserve(world.user(), {**made, **params})
    reservation = reservation_of(claimed, plugin.resource_type)
    return Case(world, plugin, lease_of(reservation, world.user(), world.trust()), reservation)
