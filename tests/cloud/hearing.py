# SPDX-License-Identifier: Apache-2.0
"""Hear what Climate tells on the message bus of the local cloud."""

import contextlib
import threading
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import oslo_messaging
from oslo_config import cfg


class Hearing:
    """Keeps the notifications of Climate, in the order in which they came."""

    def __init__(self) -> None:
        self._heard: list[tuple[str, Mapping[str, Any]]] = []
        self._news = threading.Condition()

    def info(self, _context: Any, _publisher: str, event_type: str, payload: Any, _: Any) -> None:
        """Take a message of oslo.messaging."""
        with self._news:
            self._heard.append((event_type, payload))
            self._news.notify_all()

    def all(self, event_type: str, lease_id: str) -> list[Mapping[str, Any]]:
        """Return the payloads of this type about a lease, each once."""
        with self._news:
            found = {
                payload['event_id']: payload
                for kind, payload in self._heard
                if kind == event_type and payload.get('lease_id') == lease_id
            }
        return list(found.values())

    def power_of(self, host: str) -> list[tuple[str, str]]:
        """Return the power states of a host, each once with the time when it came into it."""
        with self._news:
            found = {
                payload['event_id']: (payload['power'], payload['time'])
                for kind, payload in self._heard
                if kind.startswith('host.power.') and payload['hypervisor_hostname'] == host
            }
        return sorted(found.values(), key=lambda each: each[1])

    def wait_for(self, event_type: str, lease_id: str, seconds: float = 90) -> Mapping[str, Any]:
        """Wait until it is told, and return its payload; fail when it never is."""
        with self._news:
            self._news.wait_for(lambda: self.all(event_type, lease_id), timeout=seconds)
            found = self.all(event_type, lease_id)
        assert found, f'{event_type} of lease {lease_id} was not told in {seconds} s'
        return found[0]


@contextlib.contextmanager
def hearing(transport_url: str) -> Iterator[Hearing]:
    """Hear all that is told from now on, by a queue of our own."""
    conf = cfg.ConfigOpts()
    conf([])
    transport = oslo_messaging.get_notification_transport(conf, url=transport_url)
    heard = Hearing()
    server = oslo_messaging.get_notification_listener(
        transport,
        [oslo_messaging.Target(exchange='climate', topic='notifications')],
        [heard],
        executor='threading',
        pool=f'tests-{uuid.uuid4().hex[:8]}',
    )
    server.start()
    try:
        yield heard
    finally:
        server.stop()
        server.wait()
        transport.cleanup()
