# SPDX-License-Identifier: Apache-2.0
"""Share the threads of an engine among the services that its events call.

A service that does not answer keeps each thread that calls it until the call times out. So it has
only a share of those that the other services leave: whatever one of them does, the events of the
others find threads that are free.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping

from climate_core.db.events import NO_SERVICES, Due, Services
from climate_core.lease import events
from climate_core.plugins.base import ResourcePlugin


def services_of(plugins: Mapping[str, ResourcePlugin]) -> Services:
    """Return the services that are called for events, with the types of resources of each."""
    types: dict[str, set[str]] = {each.service: set() for each in events.TABLE if each.service}
    for resource_type, plugin in plugins.items():
        types.setdefault(_service(plugin), set()).add(resource_type)
    return Services(types)


def _service(plugin: ResourcePlugin) -> str:
    return plugin.service or plugin.resource_type


class ThreadShares:
    """Count the threads by the service that each of them calls.

    An event that may call several services counts for each of them until it calls the first one,
    and then for the one that it called last.

    :param workers: how many threads there are
    :param percent: how many of the threads that others leave one service may have
    :param services: the services, and the types of resources for which each is called
    :param seen_by: is told how many threads call a service
    """

    def __init__(
        self,
        workers: int,
        percent: int,
        services: Services = NO_SERVICES,
        seen_by: Callable[[str, int], None] = lambda _service, _threads: None,
    ) -> None:
        self._workers = workers
        self._percent = percent
        self.services = services
        self._seen_by = seen_by
        self._at: dict[str, Collection[str]] = {}
        self._counts: dict[str, int] = defaultdict(int)
        self._lock = threading.Lock()
        #: Called when an event needs a service no more that it might have called.
        self.freed: Callable[[], None] = lambda: None

    def has_room(self, due: Due) -> bool:
        """Tell whether another event may begin."""
        with self._lock:
            return all(self._counts[each] < self._most(each) for each in due.services)

    def full(self) -> set[str]:
        """Return the services for which no other event may begin."""
        with self._lock:
            return {each for each in self.services.names if self._counts[each] >= self._most(each)}

    def begin(self, due: Due) -> None:
        """Count the thread of an event that begins."""
        with self._lock:
            self._move(due.id, due.services)

    def enter(self, event_id: str, plugin: ResourcePlugin) -> bool:
        """Count the thread of an event for the service of the plugin that it is about to call.

        :returns: whether it may; if not, the service has as many threads as it may have at all
        """
        service = _service(plugin)
        with self._lock:
            at = set(self._at.get(event_id, ()))
            if at == {service}:
                return True
            most = max(1, self._workers * self._percent // 100)
            if self._counts[service] - (service in at) >= most:
                return False
            self._move(event_id, (service,))
        if at:
            self.freed()
        return True

    def end(self, event_id: str) -> None:
        """Count the thread of an event no more."""
        with self._lock:
            self._move(event_id, None)

    def _most(self, service: str) -> int:
        """Return how many threads a service may have now."""
        left = self._workers - (len(self._at) - self._counts[service])
        return max(1, left * self._percent // 100)

    def _move(self, event_id: str, services: Collection[str] | None) -> None:
        before = self._at.pop(event_id, ())
        if services is not None:
            self._at[event_id] = services
        for each in before:
            self._counts[each] -= 1
        for each in services or ():
            self._counts[each] += 1
        for each in {*before, *(services or ())}:
            self._seen_by(each, self._counts[each])
