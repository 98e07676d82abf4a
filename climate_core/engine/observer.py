# SPDX-License-Identifier: Apache-2.0
"""Who is told what the engine does. Nobody, unless metrics are wanted."""

import datetime

from climate_core.db.events import Due
from climate_core.lease import model


class Observer:
    """Is told, and does nothing. Called by many threads."""

    def claimed(self, due: Due, now: datetime.datetime) -> None:
        """An event is ours."""

    def beaten(self, due: Due) -> None:
        """Another manager was faster, or the event is not due any more."""

    def lost(self, event_id: str) -> None:
        """A claim is not ours any more: it expired, or the event was superseded."""

    def settled(self, event: model.Event, now: datetime.datetime) -> None:
        """The work on a claim was written down; the event is what it is afterwards."""


IGNORE = Observer()
