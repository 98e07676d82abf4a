# SPDX-License-Identifier: Apache-2.0
"""Hear the notifications that services put on the message bus."""

import contextlib
import dataclasses
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import oslo_messaging
from oslo_config import cfg

#: (exchange, topic): Climate's own, and nova's versioned ones.
SOURCES = (('climate', 'notifications'), ('nova', 'versioned_notifications'))


@dataclasses.dataclass(frozen=True)
class Notification:
    """One message.

    :param resource: id of the lease or the server that it is about
    :param state: of the lease, or the vm_state of the server
    """

    publisher: str
    event_type: str
    resource: str
    state: str


class Listener:
    """Keeps what it hears, in order."""

    def __init__(self) -> None:
        self.heard: list[Notification] = []
        self._news = threading.Condition()

    def info(self, _context: Any, publisher: str, event_type: str, payload: Any, _: Any) -> None:
        """Take a message of oslo.messaging."""
        values = payload.get('nova_object.data', payload)
        resource = values.get('lease_id') or values.get('uuid') or ''
        state = values.get('status') or values.get('state') or ''
        with self._news:
            self.heard.append(Notification(publisher, event_type, resource, state))
            self._news.notify_all()

    warn = error = info

    def find(self, event_type: str, resource: str, state: str) -> Notification | None:
        """Return the first such message, or None."""
        for one in list(self.heard):
            if (one.event_type, one.resource, one.state) == (event_type, resource, state):
                return one
        return None

    def wait(self, done: Callable[[], bool], seconds: float) -> bool:
        """Wait until ``done`` says so, looking after each message."""
        with self._news:
            return self._news.wait_for(done, seconds)


@contextlib.contextmanager
def listening(transport_url: str) -> Iterator[Listener]:
    """Hear everything that is sent from now on.

    A queue of our own beside those of the services takes a copy of each message; the broker
    removes it when it has not been used for a while.
    """
    conf = cfg.ConfigOpts()
    conf([])
    transport = oslo_messaging.get_notification_transport(conf, url=transport_url)
    targets = [oslo_messaging.Target(exchange=name, topic=topic) for name, topic in SOURCES]
    listener = Listener()
    server = oslo_messaging.get_notification_listener(
        transport, targets, [listener], executor='threading', pool=f'listener-{os.getpid()}'
    )
    server.start()
    try:
        yield listener
    finally:
        server.stop()
        server.wait()
        transport.cleanup()
