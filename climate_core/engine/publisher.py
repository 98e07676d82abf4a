# SPDX-License-Identifier: Apache-2.0
"""Sends what is in the outbox, at least once, and sleeps while it is empty."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import oslo_messaging as messaging
from oslo_config import cfg
from oslo_log import log

from climate_core.db import outbox
from climate_core.db.engine import TROUBLE, Database
from climate_core.engine import points

LOG = log.getLogger(__name__)

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


class Publisher:
    """Empties the outbox.

    :param send: sends one notification, or raises
    :param idle_seconds: the longest sleep
    :param ttl: seconds after which another manager sends what this one claimed and did not send
    """

    def __init__(self, database: Database, send: Send, idle_seconds: float, ttl: float) -> None:
        self._database = database
        self._send = send
        self._idle_seconds = idle_seconds
        self._ttl = ttl
        self._changed = threading.Condition()
        self._nudged = False
        self._stopping = False
        self._trouble = 0
        self._thread = threading.Thread(target=self._run, name='publisher', daemon=True)

    def start(self) -> None:
        self._thread.start()

    def nudge(self) -> None:
        """Have the publisher look into the outbox now."""
        with self._changed:
            self._nudged = True
            self._changed.notify_all()

    def stop(self, grace: float = 0.0) -> bool:
        """Stop after the notification in progress; tell whether that took less than ``grace``."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(grace)
        return not self._thread.is_alive()

    def publish(self) -> bool:
        """Send what is due, at most a batch; tell whether there was something."""
        claim, batch = self._database.write(outbox.claim, self._ttl, BATCH)
        sent: list[int] = []
        try:
            for item in batch:
                if self._stopping:
                    break
                points.reached('outbox.before', event_type=item.event_type)
                self._send(item.event_type, item.payload)
                sent.append(item.id)
                points.reached('outbox.after', event_type=item.event_type)
        finally:
            if sent:
                self._database.write(outbox.sent, claim, sent)
        return bool(batch)

    def _run(self) -> None:
        while not self._stopping:
            with self._changed:
                self._nudged = False
            try:
                while self.publish() and not self._stopping:
                    pass
                seconds = self._database.read(outbox.due_in)
                self._trouble = 0
            except (*TROUBLE, messaging.MessagingException):
                LOG.exception('Notifications cannot be sent now; they are kept')
                self._trouble += 1
                seconds = min(30.0, 2.0**self._trouble)
            self._sleep(seconds)

    def _sleep(self, seconds: float | None) -> None:
        if seconds is None or seconds > self._idle_seconds:
            seconds = self._idle_seconds
        with self._changed:
            self._changed.wait_for(lambda: self._nudged or self._stopping, timeout=seconds)
