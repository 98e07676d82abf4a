# SPDX-License-Identifier: Apache-2.0
"""Resources that notifications are about, and what checks them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from climate_core.db.engine import Database
from climate_core.lease.model import Lease, Reservation
from climate_core.plugins.base import Evacuable, ReservedResource, ResourcePlugin
from climate_core.plugins.server import ServerPlugin
from climate_core.plugins.stack import StackPlugin
from climate_core.plugins.volume import VolumePlugin
from climate_core.repair import listener
from climate_core.threads import Worker
from tests.support.executor import early_polls

SERVERS, VOLUMES, STACKS = ServerPlugin, VolumePlugin, StackPlugin


class Notified(Evacuable):
    """Resources of a type all of which exist, unless a test changes that.

    :ivar gone: why resources are gone, by their ids
    :ivar moved: the same of those that were moved
    :ivar asked: the ids of the resources of each call
    :ivar trouble: is raised by the next call
    """

    title = 'Resource'

    def __init__(self, kind: type[ResourcePlugin]) -> None:
        self.resource_type = kind.resource_type  # type: ignore[misc]
        self.notifications = kind.notifications  # type: ignore[misc]
        self.gone: dict[str, str] = {}
        self.moved: dict[str, str] = {}
        self.asked: list[list[str]] = []
        self.trouble: list[Exception] = []

    def reserve(self, *args: Any) -> ReservedResource:
        raise AssertionError('Nothing is reserved here.')

    def start(self, lease: Lease, reservation: Reservation) -> None:
        """Do nothing."""

    def end(self, lease: Lease, reservation: Reservation) -> None:
        """Do nothing."""

    def reconcile(
        self, pages: Iterable[Sequence[Reservation]]
    ) -> Iterator[tuple[Reservation, str]]:
        for page in pages:
            found = self._find(self.gone, page)
            yield from ((each, found[each.id]) for each in page if each.id in found)

    def find_moved(self, reservations: Sequence[Reservation]) -> dict[str, str]:
        return self._find(self.moved, reservations)

    def _find(self, known: dict[str, str], reservations: Sequence[Reservation]) -> dict[str, str]:
        self.asked.append([each.resource_id for each in reservations])
        if self.trouble:
            raise self.trouble.pop()
        return {r.id: known[r.resource_id] for r in reservations if r.resource_id in known}


class Engine(Worker):
    """A scheduler, or a worker of a package, that records its calls.

    :ivar nudged: an item for each nudge
    :ivar looked: the events that are polled early
    """

    name = 'engine'
    polls_on_compute_change = True

    def __init__(self) -> None:
        super().__init__(60.0)
        self.nudged: list[int] = []
        self.looked: list[Any] = []

    def nudge(self) -> None:
        self.nudged.append(1)

    def poll(self) -> None:
        """Do nothing."""

    def poll_early(self, due: Any) -> None:
        self.looked.append(due)


class Cloud:
    """Hand notifications over as the bus does, and do the checks that follow."""

    def __init__(self, database: Database) -> None:
        engine = Engine()
        self.nudged, self.looked = engine.nudged, engine.looked
        self.plugins = {each.resource_type: Notified(each) for each in (SERVERS, VOLUMES, STACKS)}
        self.checks = {
            each: listener.NotifiedChecks(database, plugin, engine)
            for each, plugin in self.plugins.items()
        }
        early = early_polls(database)
        self._endpoints = {
            name: listener.NotificationEndpoint(
                plugin.notifications,
                name,
                self.checks[name],
                early,
                engine,  # type: ignore[arg-type]
            )
            for name, plugin in self.plugins.items()
        }

    def notify(
        self,
        kind: type[ResourcePlugin],
        event_type: str,
        payload: Any,
        priority: str = 'info',
    ) -> None:
        """Hand a notification over, and leave its check to be done."""
        endpoint = self._endpoints[kind.resource_type]
        getattr(endpoint, priority)({}, 'publisher', event_type, payload, {})

    def tell(self, kind: type[ResourcePlugin], *notification: Any) -> None:
        """Hand a notification over, and do what is checked because of it at once."""
        self.notify(kind, *notification)
        self.checks[kind.resource_type].poll()
