# SPDX-License-Identifier: Apache-2.0
"""Send the notifications of the outbox, at least once, and sleep while it is empty."""

from collections.abc import Callable, Mapping
from typing import Any

import oslo_messaging as messaging
from oslo_config import cfg

from climate_core import test_points
from climate_core.db import outbox
from climate_core.db.engine import TROUBLE, Database
from climate_core.threads import Worker

#: How many notifications are claimed at once.
BATCH = 100

Send = Callable[[str, Mapping[str, Any]], None]


def notifier(conf: cfg.ConfigOpts) -> Send:
    """Return what sends through the drivers of ``[oslo_messaging_notifications]``.

    It blocks while the message bus is away: the outbox keeps what is not sent.
    """
    transport = messaging.get_notification_transport(conf)
    sender = messaging.Notifier(transport, publisher_id=f'climate.{conf.manager.host}', retry=-1)

    def send(event_type: str, payload: Mapping[str, Any]) -> None:
        sender.info({}, event_type, dict(payload))

    return send


class Publisher(Worker):
    """Empty the outbox; what is written into it by this process wakes it.

    :param send: sends one notification, or raises
    :param idle_seconds: the longest sleep
    :param ttl: seconds after which another manager sends what this one claimed and did not send
    """

    name = 'publisher'
    trouble = (*TROUBLE, messaging.MessagingException)
    complaint = 'Notifications cannot be sent now; they are kept'
    # To claim them one by one was half of what a manager did while many leases were created.
    spacing = 0.05

    def __init__(self, database: Database, send: Send, idle_seconds: float, ttl: float) -> None:
        super().__init__(idle_seconds)
        self._database = database
        self._send = send
        self._ttl = ttl
        database.listen(outbox.FILLED, self.nudge)

    def look(self) -> float | None:
        while (seconds := self.publish()) == 0 and not self.stopping:
            pass
        return seconds

    def publish(self) -> float | None:
        """Send what is due, at most a batch.

        :returns: in how many seconds there is something to send again; None: nothing is known
        """
        claim = self._database.write(outbox.claim, self._ttl, BATCH)
        sent: list[int] = []
        try:
            for item in claim.notifications:
                if self.stopping:
                    break
                test_points.reached('outbox.before', event_type=item.event_type)
                self._send(item.event_type, item.payload)
                sent.append(item.id)
                test_points.reached('outbox.after', event_type=item.event_type)
        finally:
            if sent:
                self._database.write(outbox.sent, claim.name, sent)
        return claim.due_in
