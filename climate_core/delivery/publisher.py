# SPDX-License-Identifier: Apache-2.0
"""Send the notifications of the outbox, at least once, and sleep while it is empty."""

import collections
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import oslo_messaging as messaging
from oslo_config import cfg

from climate_core import test_points
from climate_core.db import outbox
from climate_core.db.engine import TROUBLE, Database
from climate_core.db.outbox import NewNotification, Notification
from climate_core.threads import Worker, nap

#: How many notifications are claimed at once.
BATCH = 100
#: How many that this process wrote may wait in it; what is more may be sent by any manager.
MOST_NEW = 1000

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

    From its start to its end it has what this process writes without reading it: that is claimed
    as it is written. The database is asked for the rest.

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
        #: What this process has written and not sent, with the times when its claims expire.
        self._new: collections.deque[tuple[NewNotification, float]] = collections.deque()
        #: When the database is to be asked, by the monotonic clock.
        self._ask_at = 0.0
        database.listen(outbox.FILLED, self.nudge)

    def start(self) -> None:
        self._database.info[outbox.SENDER] = self
        super().start()

    def stop(self) -> None:
        self._database.info.pop(outbox.SENDER, None)
        super().stop()

    def nudge(self) -> None:
        self._ask_at = 0.0
        super().nudge()

    def seconds_for_new(self) -> float | None:
        return None if self.stopping or len(self._new) >= MOST_NEW else self._ttl

    def take(self, notifications: Sequence[NewNotification], until: float) -> None:
        self._new.extend((each, until) for each in notifications)
        super().nudge()

    def look(self) -> float | None:
        try:
            while self._new and not self.stopping:
                self._publish_new()
        except BaseException:
            # What is kept is sent when its claim expires.
            self._ask_again(self._ttl)
            raise
        if self._ask_at <= time.monotonic() and not self.stopping:
            self._ask_at = math.inf
            try:
                while (seconds := self.publish()) == 0 and not self.stopping:
                    pass
            except BaseException:
                self._ask_at = 0.0
                raise
            self._ask_again(nap(seconds, self._idle_seconds))
        return max(0.0, self._ask_at - time.monotonic())

    def _ask_again(self, seconds: float) -> None:
        self._ask_at = min(self._ask_at, time.monotonic() + seconds)

    def publish(self) -> float | None:
        """Send what the database has that is due, at most a batch.

        :returns: in how many seconds there is something to send again; None: nothing is known
        """
        claim = self._database.write(outbox.claim, self._ttl, BATCH)
        sent: list[int] = []
        try:
            for item in claim.notifications:
                if self.stopping:
                    break
                self._send_one(item)
                sent.append(item.id)
        finally:
            if sent:
                self._database.write(outbox.sent, claim.name, sent)
        return claim.due_in

    def _publish_new(self) -> None:
        """Send what this process has written, at most a batch."""
        sent: list[NewNotification] = []
        try:
            while self._new and len(sent) < BATCH and not self.stopping:
                item, until = self._new.popleft()
                if until <= time.monotonic():
                    # Another manager may have it by now.
                    self._ask_at = 0.0
                    continue
                self._send_one(item)
                sent.append(item)
        finally:
            if sent:
                self._database.write(outbox.new_sent, sent)

    def _send_one(self, item: Notification | NewNotification) -> None:
        test_points.reached('outbox.before', event_type=item.event_type)
        self._send(item.event_type, item.payload)
        test_points.reached('outbox.after', event_type=item.event_type)
