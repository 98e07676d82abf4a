# SPDX-License-Identifier: Apache-2.0
"""Resources that notifications are about, and what checks them."""

from collections.abc import Sequence
from typing import Any

from climate_core.db import due_events
from climate_core.db.engine import Database
from climate_core.lease.model import Reservation
from climate_core.repair import listener
from climate_core.repair.notified_checks import NotifiedChecks


class Plugin:
    """Resources of a type all of which exist, unless it is said here.

    :ivar gone: why resources are gone, by their ids
    :ivar moved: the same of those that were moved
    :ivar asked: the ids of the resources of each call
    :ivar trouble: is raised by the next call
    """

    title = 'Resource'

    def __init__(self, resource_type: str) -> None:
        self.resource_type = resource_type
        self.gone: dict[str, str] = {}
        self.moved: dict[str, str] = {}
        self.asked: list[list[str]] = []
        self.trouble: list[Exception] = []

    def find_missing(self, reservations: Sequence[Reservation]) -> dict[str, str]:
        return self._find(self.gone, reservations)

    def find_moved(self, reservations: Sequence[Reservation]) -> dict[str, str]:
        return self._find(self.moved, reservations)

    def _find(self, known: dict[str, str], reservations: Sequence[Reservation]) -> dict[str, str]:
        self.asked.append([each.resource_id for each in reservations])
        if self.trouble:
            raise self.trouble.pop()
        return {r.id: known[r.resource_id] for r in reservations if r.resource_id in known}


class Cloud:
    """Hand notifications over as the bus does, and do the checks that follow."""

    def __init__(self, database: Database) -> None:
        self.nudged: list[int] = []
        self.looked: list[Any] = []
        self.plugins = {each: Plugin(each) for each in sorted(listener.CHECKED)}
        self.checks = {
            each: NotifiedChecks(database, plugin, lambda: self.nudged.append(1))  # type: ignore
            for each, plugin in self.plugins.items()
        }
        early = due_events.EarlyPolls(database)
        self._endpoints = {
            source.resource_type: listener.NotificationEndpoint(
                source, self.checks[source.resource_type], early, self.looked.append
            )
            for source in listener.SOURCES
        }

    def notify(
        self,
        source: listener.NotificationSource,
        event_type: str,
        payload: Any,
        priority: str = 'info',
    ) -> None:
        """Hand a notification over, and leave its check to be done."""
        endpoint = self._endpoints[source.resource_type]
        getattr(endpoint, priority)({}, 'publisher', event_type, payload, {})

    def tell(self, source: listener.NotificationSource, *notification: Any) -> None:
        """Hand a notification over, and do what is checked because of it at once."""
        self.notify(source, *notification)
        self.checks[source.resource_type].poll()
