# SPDX-License-Identifier: Apache-2.0
"""The observer of the engine, see :class:`climate_core.delivery.metrics.Metrics`."""

import datetime
from typing import Protocol, cast

from climate_core.db.events import Due
from climate_core.lease import model


class Observer(Protocol):
    """It is told by many threads what becomes of claims."""

    def claimed(self, due: Due, now: datetime.datetime) -> None:
        """An event is claimed by this manager."""

    def beaten(self, due: Due) -> None:
        """Another manager was faster, or the event is not due any more."""

    def lost(self, event_id: str) -> None:
        """A claim expired, or its event was superseded."""

    def settled(self, event: model.Event, now: datetime.datetime) -> None:
        """The work on a claim was written down; the event is what it is afterwards."""

    def repaired(self, resource_type: str, repair: str) -> None:
        """A plugin repaired what the service of a resource had lost."""


class _Ignore:
    def claimed(self, *_: object) -> None:
        """Do nothing."""

    beaten = lost = settled = repaired = claimed


#: Does nothing with what it is told.
IGNORE = cast(Observer, _Ignore())
