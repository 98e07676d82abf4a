# SPDX-License-Identifier: Apache-2.0
"""Send the notifications of the outbox, at least once, and sleep while it is empty."""

import collections
import datetime
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import oslo_messaging as messaging
from oslo_config import cfg
from oslo_log import log

from climate_core import test_hooks
from climate_core.db import outbox
from climate_core.db.engine import DATABASE_ERRORS, Database
from climate_core.db.outbox import NewNotification, Notification
from climate_core.db.sql import Clock
from climate_core.threads import Worker, limit_sleep

LOG = log.getLogger(__name__)

#: Maximum number of claimed notifications in memory; any manager sends the others.
MAX_CLAIMED = 1000


class ClaimedNotifications:
    """A queue of notifications that this process has saved and claimed, and not sent yet.

    Once it is full it accepts no more until it is reopened: then the notifications in the database
    are newer than those in the queue, and older than those to come. Any thread may add, one thread
    removes.
    """

    def __init__(self) -> None:
        self._items: collections.deque[tuple[NewNotification, float]] = collections.deque()
        self.is_open = True

    def __len__(self) -> int:
        return len(self._items)

    def accepts_more(self) -> bool:
        """Return whether the queue accepts the notifications that are saved now."""
        if len(self._items) >= MAX_CLAIMED:
            self.is_open = False
        return self.is_open

    def add(self, notifications: Sequence[NewNotification], until: float) -> None:
        """Add notifications.

        :param until: when their claim expires, by the monotonic clock
        """
        self._items.extend((notification, until) for notification in notifications)

    def has_expired(self) -> bool:
        """Return whether another manager may have claimed the next notification by now."""
        return bool(self._items) and self._items[0][1] <= time.monotonic()

    def pop(self) -> NewNotification:
        """Remove the next notification and return it.

        :raises IndexError: the queue is empty
        """
        return self._items.popleft()[0]

    def clear(self) -> set[str]:
        """Empty the queue; return the names of the claims."""
        return {self.pop().claim for _ in range(len(self))}


#: Number of notifications that are claimed or deleted in one statement.
BATCH_SIZE = 100

Send = Callable[[str, Mapping[str, Any]], None]


def create_sender(conf: cfg.ConfigOpts) -> Send:
    """Return a function that sends through the drivers of ``[oslo_messaging_notifications]``.

    It blocks while the message bus is away: unsent notifications stay in the outbox.
    """
    transport = messaging.get_notification_transport(conf)
    sender = messaging.Notifier(transport, publisher_id=f'climate.{conf.manager.host}', retry=-1)

    def send(event_type: str, payload: Mapping[str, Any]) -> None:
        sender.info({}, event_type, dict(payload))

    return send


class Publisher(Worker):
    """Empty the outbox; transactions of this process that fill it wake the publisher.

    Between its start and its stop, the notifications of this process are claimed as they are saved
    and reach the publisher without a query. It queries the database for the others.

    :param send: sends one notification, or raises
    :param idle_seconds: the longest sleep
    :param ttl: seconds after which another manager sends what this one claimed and did not send
    """

    name = 'publisher'
    expected_errors = (*DATABASE_ERRORS, messaging.MessagingException)
    failure_message = 'Notifications cannot be sent now; they stay in the outbox'
    # Single claims were half of a manager's work while many leases were created.
    spacing = 0.05

    def __init__(
        self, database: Database, clock: Clock, send: Send, idle_seconds: float, ttl: float
    ) -> None:
        super().__init__(idle_seconds)
        self._database = database
        self._clock = clock
        self.send = send
        self._ttl = ttl
        self._claimed = ClaimedNotifications()
        #: Whether to query the database now, and otherwise when, by the monotonic clock.
        self._must_query = True
        self._query_at = math.inf
        database.listen(outbox.NOTIFICATIONS_ADDED, self.nudge)

    def start(self) -> None:
        self._database.info[outbox.SENDER] = self
        super().start()

    def stop(self) -> None:
        self._database.info.pop(outbox.SENDER, None)
        super().stop()

    def nudge(self) -> None:
        self._must_query = True
        super().nudge()

    def expiry_of_new(self) -> outbox.Expiry | None:
        if self.stopping or not self._claimed.accepts_more():
            return None
        # The monotonic time first: this process releases its claim before others may take it.
        until = time.monotonic() + self._ttl
        return outbox.Expiry(self._clock.now() + datetime.timedelta(seconds=self._ttl), until)

    def take(self, notifications: Sequence[NewNotification], until: float) -> None:
        self._claimed.add(notifications, until)
        super().nudge()

    def poll(self) -> float | None:
        while not self.stopping and (self._claimed or self._is_query_due()):
            if self._claimed.has_expired():
                # Later notifications must not be sent before it.
                self._release_claims()
            self._send_claimed()
            # A full queue is emptied first: the notifications in the database are newer.
            if self._is_query_due() and (self._claimed.is_open or not self._claimed):
                self._query_database()
        return max(0.0, self._query_at - time.monotonic())

    def publish(self) -> float | None:
        """Send at most a batch of the due notifications in the database.

        :returns: seconds until another notification is due; None: unknown
        """
        claim = self._database.write(outbox.claim_notifications, self._ttl, BATCH_SIZE)
        sent: list[int] = []
        try:
            for item in claim.notifications:
                if self.stopping:
                    break
                self._send_one(item)
                sent.append(item.id)
        finally:
            if sent:
                self._database.write(outbox.delete_sent, claim.name, sent)
        if len(sent) < len(claim.notifications):
            self._database.write(outbox.release_claims, [claim.name])
        return claim.due_in

    def _run(self) -> None:
        super()._run()
        try:
            self._release_claims()
        except self.expected_errors as exc:
            LOG.warning('Could not release claims of notifications; they expire: %s', exc)

    def _is_query_due(self) -> bool:
        """Return whether to query the database now."""
        return self._must_query or self._query_at <= time.monotonic()

    def _query_database(self) -> None:
        """Send a batch of the notifications in the database."""
        self._must_query, self._query_at = False, math.inf
        try:
            seconds = self.publish()
        except BaseException:
            self._must_query = True
            raise
        if seconds == 0:
            self._must_query = True
        self._query_within(limit_sleep(seconds, self._idle_seconds))
        if not self._must_query:
            self._claimed.is_open = True

    def _query_within(self, seconds: float) -> None:
        self._query_at = min(self._query_at, time.monotonic() + seconds)

    def _send_claimed(self) -> None:
        """Send at most a batch of the notifications that this process has claimed."""
        if not self._claimed:
            return
        # By then claims of undeleted notifications, and those of dead managers, have expired.
        self._query_within(self._ttl)
        sent: list[NewNotification] = []
        try:
            while self._may_send() and len(sent) < BATCH_SIZE:
                item = self._claimed.pop()
                self._send_one(item)
                sent.append(item)
        finally:
            if sent:
                self._database.write(outbox.delete_sent_new, sent)

    def _may_send(self) -> bool:
        """Return whether the next claimed notification may be sent."""
        return bool(self._claimed) and not self._claimed.has_expired() and not self.stopping

    def _release_claims(self) -> None:
        """Release the claims of the notifications that this process has not sent."""
        claims = self._claimed.clear()
        if claims:
            self._must_query = True
            self._database.write(outbox.release_claims, claims)

    def _send_one(self, item: Notification | NewNotification) -> None:
        test_hooks.reached('outbox.before', event_type=item.event_type)
        self.send(item.event_type, item.payload)
        test_hooks.reached('outbox.after', event_type=item.event_type)
