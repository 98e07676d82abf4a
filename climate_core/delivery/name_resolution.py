# SPDX-License-Identifier: Apache-2.0
"""Resolve host names: with a deadline, and those of the cloud's own hosts.

``getaddrinfo`` knows no deadline. A resolution runs in a daemon thread, which neither a worker nor
the stop of a manager waits for, and only a bounded number of them run for one project.
"""

import collections
import contextlib
import ipaddress
import queue
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from concurrent import futures
from typing import Any

from oslo_config import cfg
from oslo_log import log

from climate_core import exceptions
from climate_core.lease import webhook

LOG = log.getLogger(__name__)

#: Seconds that the addresses of the cloud's own hosts are used.
_FRESH = 600.0
#: The same if the service catalog could not be read.
_INCOMPLETE = 10.0
#: Seconds for each name of the cloud's own hosts.
_PATIENCE = 5.0


class NotResolved(Exception):
    """A name has no address. The message is for users and has no details of the control plane."""


class Resolver:
    """Resolve names, a bounded number of them at the same time.

    :param most: resolutions in progress at the same time
    :param share: resolutions in progress for one project
    """

    def __init__(self, most: int, share: int) -> None:
        self._most = most
        self._share = share
        self._lock = threading.Lock()
        self._counts: collections.Counter[str] = collections.Counter()

    def resolve(self, host: str, port: int, project_id: str, seconds: float) -> list[Any]:
        """Resolve a name; return what ``socket.getaddrinfo`` does.

        :param project_id: the project for which the name is resolved
        :param seconds: how long to wait
        :raises NotResolved: there is no such name, or too many resolutions are in progress
        :raises TimeoutError: there is no answer yet
        """
        with self._lock:
            if self._counts[project_id] >= self._share or self._counts.total() >= self._most:
                raise NotResolved('Its host name was not resolved: too many are in progress.')
            self._counts[project_id] += 1
        answers: queue.SimpleQueue[list[Any] | None] = queue.SimpleQueue()

        def run() -> None:
            found = None
            try:
                with contextlib.suppress(OSError, UnicodeError):
                    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            finally:
                with self._lock:
                    self._counts[project_id] -= 1
                answers.put(found)

        threading.Thread(target=run, name='webhook name resolution', daemon=True).start()
        try:
            found = answers.get(timeout=max(0.0, seconds))
        except queue.Empty:
            raise TimeoutError from None
        if found is None:
            raise NotResolved('Its host name is not known.')
        return found


class CloudHosts:
    """Find the addresses of the services of this cloud, which webhooks must not reach.

    They are the hosts of every URL in the configuration (database, message bus, Keystone,
    endpoints, the external service) and of every endpoint in the service catalog.

    :param conf: the whole configuration
    :param catalog_urls: returns the endpoints in the service catalog
    :param resolver: resolves their names
    """

    def __init__(
        self, conf: cfg.ConfigOpts, catalog_urls: Callable[[], Iterable[str]], resolver: Resolver
    ) -> None:
        self._conf = conf
        self._catalog_urls = catalog_urls
        self._resolver = resolver
        self._lock = threading.Lock()
        self._refresh: futures.Future[Set[webhook.Address]] | None = None
        self._known: frozenset[webhook.Address] = frozenset()
        self._seconds = _FRESH
        self._until = 0.0

    def find_addresses(self, seconds: float) -> Set[webhook.Address]:
        """Return the addresses. They are resolved again every ten minutes.

        After ten seconds if the service catalog could not be read: a manager that starts while
        Keystone is away does not know the endpoints. The resolution continues when a caller stops
        waiting for it, so that slow names delay a few calls and do not fail all of them.

        :param seconds: how long to wait
        :raises NotResolved: the addresses are not known yet
        """
        with self._lock:
            refresh = self._refresh
            if refresh is None or (refresh.done() and time.monotonic() >= self._until):
                refresh = self._refresh = futures.Future()
                name = 'cloud host name resolution'
                threading.Thread(
                    target=self._run_refresh, args=(refresh,), name=name, daemon=True
                ).start()
        try:
            return refresh.result(max(0.0, seconds))
        except TimeoutError:
            raise NotResolved('Its address could not be checked in time.') from None

    def _run_refresh(self, refresh: futures.Future[Set[webhook.Address]]) -> None:
        self._seconds = _FRESH
        try:
            self._known = frozenset(self._resolve_hosts())
        except Exception:
            LOG.exception('Could not resolve the hosts of the cloud; webhooks are called later')
            self._until = time.monotonic() + _INCOMPLETE
            refresh.set_exception(NotResolved('Its address could not be checked.'))
        else:
            self._until = time.monotonic() + self._seconds
            refresh.set_result(self._known)

    def _resolve_hosts(self) -> Iterator[webhook.Address]:
        urls = set(configured_urls(self._conf))
        try:
            urls.update(self._catalog_urls())
        except exceptions.Transient as exc:
            LOG.warning(
                'Could not read the service catalog, webhooks may reach new endpoints: %s',
                exc,
            )
            self._seconds = _INCOMPLETE
            yield from self._known
        for host in sorted({host for url in urls for host in hosts_of(url)}):
            try:
                found = self._resolver.resolve(host, 0, '', _PATIENCE)
            except (NotResolved, TimeoutError):
                # What is known of it stays.
                yield from self._known
                continue
            for *_, sockaddr in found:
                yield ipaddress.ip_address(sockaddr[0])


def configured_urls(section: Mapping[str, Any]) -> Iterator[str]:
    """Yield every URL in the configuration, whatever its option is called."""
    for name in section:
        try:
            value = section[name]
        except cfg.Error:
            continue
        if isinstance(value, Mapping):
            yield from configured_urls(value)
        else:
            values = value if isinstance(value, list) else [value]
            yield from (each for each in values if isinstance(each, str) and '://' in each)


def hosts_of(url: str) -> Iterator[str]:
    """Yield the host names of a URL: that of a message bus may have several."""
    with contextlib.suppress(ValueError):
        for part in urllib.parse.urlsplit(url).netloc.split(','):
            host = urllib.parse.urlsplit(f'//{part}').hostname
            if host:
                yield host
