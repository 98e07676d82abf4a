# SPDX-License-Identifier: Apache-2.0
"""Limit how many threads and claimed events of an engine one service may occupy.

A service that does not answer occupies each thread that calls it until the call times out. So it
has only a share of the threads that the other services leave: the events of the others always
find free threads. The same share limits the claimed events that wait for a thread.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping

from climate_core.db.events import NO_SERVICES, CalledServices, DueEvent
from climate_core.delivery.metrics import Metrics
from climate_core.lease import events
from climate_core.plugins.base import ResourcePlugin


def list_services(plugins: Mapping[str, ResourcePlugin]) -> CalledServices:
    """Return the services that are called for events, with their types of resources."""
    types: dict[str, set[str]] = {h.service: set() for h in events.TABLE if h.service}
    for resource_type, plugin in plugins.items():
        types.setdefault(_service_of(plugin), set()).add(resource_type)
    return CalledServices(types)


def _service_of(plugin: ResourcePlugin) -> str:
    return plugin.service or plugin.resource_type


class _ServiceCounter:
    """Count events by the services that they may call.

    An event that may call several counts for each of them until it calls the first one, and then
    for the one that it called last.

    :param size: maximum number of events
    :param percent: share of one service in the events that the other services leave
    :param observer: gets the number of events of a service
    """

    def __init__(self, size: int, percent: int, observer: Metrics | None = None) -> None:
        self._size, self._percent, self._observer = size, percent, observer
        self._at: dict[str, Collection[str]] = {}
        self._counts: dict[str, int] = defaultdict(int)

    def has_capacity(self, service: str) -> bool:
        """Return whether a service may have another event."""
        count = self._counts[service]
        left = self._size - (len(self._at) - count)
        return count < max(1, left * self._percent // 100)

    def may_continue(self, event_id: str, service: str) -> bool:
        """Return whether an event may move to a service, whatever the others have."""
        others = self._counts[service] - (service in self._at.get(event_id, ()))
        return others < max(1, self._size * self._percent // 100)

    def is_at(self, event_id: str, service: str) -> bool:
        """Return whether an event counts for this service alone."""
        return set(self._at.get(event_id, ())) == {service}

    def move(self, event_id: str, services: Collection[str] | None) -> Collection[str]:
        """Count an event for these services, None: for none; return those before."""
        before = self._at.pop(event_id, ())
        if services is not None:
            self._at[event_id] = services
        for service in before:
            self._counts[service] -= 1
        for service in services or ():
            self._counts[service] += 1
        if self._observer is not None:
            for service in {*before, *(services or ())}:
                self._observer.set_threads(service, self._counts[service])
        return before


class ServiceBulkhead:
    """Count the events that are worked on, and the threads, by the service that each calls.

    :param workers: number of threads
    :param percent: share of one service in the threads that the other services leave
    :param services: the services, and the types of resources for which each is called
    :param observer: gets the number of threads that call a service
    :param places: maximum number of events in progress; None: the number of threads
    """

    def __init__(
        self,
        workers: int,
        percent: int,
        services: CalledServices = NO_SERVICES,
        observer: Metrics | None = None,
        places: int | None = None,
    ) -> None:
        self.services = services
        self.places = workers if places is None else places
        self._events = _ServiceCounter(self.places, percent)
        self._threads = _ServiceCounter(workers, percent, observer)
        self._lock = threading.Lock()
        #: Called when an event no longer needs a service that it might have called.
        self.freed: list[Callable[[], None]] = []

    def has_capacity(self, due: DueEvent) -> bool:
        """Return whether the work on another event may start."""
        with self._lock:
            return all(self._events.has_capacity(service) for service in due.services)

    def full(self) -> set[str]:
        """Return the services for which no other event may start."""
        with self._lock:
            return {s for s in self.services.names if not self._events.has_capacity(s)}

    def begin(self, due: DueEvent) -> None:
        """Count an event that starts."""
        with self._lock:
            self._events.move(due.id, due.services)

    def has_thread(self, due: DueEvent) -> bool:
        """Return whether another thread may call services for an event."""
        with self._lock:
            return all(self._threads.has_capacity(service) for service in due.services)

    def take_thread(self, due: DueEvent) -> None:
        """Count the thread that is about to call services for an event."""
        with self._lock:
            self._threads.move(due.id, due.services)

    def enter(self, event_id: str, plugin: ResourcePlugin) -> bool:
        """Count an event, and its thread, for the service of the plugin that it is about to call.

        :returns: whether it may; if not, the service has as many threads as it may have at all
        """
        service = _service_of(plugin)
        with self._lock:
            if self._threads.is_at(event_id, service):
                return True
            if not self._threads.may_continue(event_id, service):
                return False
            before = self._threads.move(event_id, (service,))
            self._events.move(event_id, (service,))
        if before:
            for freed in self.freed:
                freed()
        return True

    def leave_thread(self, event_id: str) -> None:
        """Stop counting the thread of an event."""
        with self._lock:
            self._threads.move(event_id, None)

    def end(self, event_id: str) -> None:
        """Stop counting an event."""
        with self._lock:
            self._events.move(event_id, None)
