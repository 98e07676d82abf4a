# SPDX-License-Identifier: Apache-2.0
"""Identities for calls: the service user, the owner of a lease, the user of a request."""

import collections
import copy
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from keystoneauth1 import discover, loading, plugin, service_token
from keystoneauth1 import session as ks_session
from oslo_config import cfg

from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.conf import cloud as cloud_conf

T = TypeVar('T')

#: Options that say what a token is for; a trust replaces them all.
_SCOPE = (
    'project_id',
    'project_name',
    'project_domain_id',
    'project_domain_name',
    'domain_id',
    'domain_name',
    'system_scope',
)


class ForwardedToken(plugin.BaseAuthPlugin):
    """The token that a user sent us, with the catalogue of the service.

    It saves asking Keystone for the user's own catalogue. The endpoints are the same, but for the
    project id that Cinder may have in its own: the service's is replaced by the user's.
    """

    def __init__(
        self, token: str | None, project_id: str | None, catalogue: plugin.BaseAuthPlugin
    ):
        super().__init__()
        self._token = token
        self._project_id = project_id
        self._catalogue = catalogue

    def get_token(self, session: ks_session.Session) -> str | None:  # noqa: ARG002
        return self._token

    def get_project_id(self, session: ks_session.Session) -> str | None:  # noqa: ARG002
        return self._project_id

    def get_endpoint(self, session: ks_session.Session, **kwargs: Any) -> str | None:
        return self._own(session, self._catalogue.get_endpoint(session, **kwargs))

    def get_endpoint_data(
        self, session: ks_session.Session, **kwargs: Any
    ) -> discover.EndpointData | None:
        found = self._catalogue.get_endpoint_data(session, **kwargs)
        if found is None:
            return None
        # It is kept in the cache of discovered endpoints, which is everybody's.
        own = copy.copy(found)
        own.catalog_url = self._own(session, found.catalog_url)
        own.service_url = self._own(session, found.service_url)
        return own

    def _own(self, session: ks_session.Session, url: str | None) -> str | None:
        """Write the user's project for the service's at the end of a URL."""
        project_id = self._catalogue.get_project_id(session)
        bare = url.rstrip('/') if url else ''
        if not project_id or not self._project_id or not bare.endswith(f'/{project_id}'):
            return url
        return bare.removesuffix(project_id) + self._project_id

    def get_api_major_version(self, session: ks_session.Session, **kwargs: Any) -> Any:
        return self._catalogue.get_api_major_version(session, **kwargs)

    def invalidate(self) -> bool:
        """Return False: there is no way to get another token of a user."""
        return False


def owner(
    conf: cfg.ConfigOpts, trust_id: str, service_auth: plugin.BaseAuthPlugin
) -> plugin.BaseAuthPlugin:
    """Return the identity of a lease's owner: a token of the trust plus the service's token."""
    return service_token.ServiceTokenAuthWrapper(trust(conf, trust_id), service_auth)


def trust(conf: cfg.ConfigOpts, trust_id: str) -> plugin.BaseAuthPlugin:
    """Return the identity that has a token of a trust alone."""
    return service(conf, trust_id=trust_id, **dict.fromkeys(_SCOPE))


def service(conf: cfg.ConfigOpts, **options: Any) -> plugin.BaseAuthPlugin:
    """Return the identity of the service user, from section ``[cloud]``.

    :param options: take the place of those of the section
    :raises climate_core.exceptions.Transient: the section says nothing, or not enough
    """
    with errors.translated('Keystone'):
        auth = loading.load_auth_from_conf_options(conf, cloud_conf.GROUP, **options)
    if auth is None:
        raise exceptions.Transient(f'[{cloud_conf.GROUP}] auth_type is not set.')
    return auth


class RecentCache(Generic[T]):
    """A bounded memory of things that are costly to make; the least recently used goes first.

    :param size: how many are kept
    :param seconds: how long one is kept after it was made
    """

    def __init__(self, size: int, seconds: float, clock: Callable[[], float] = time.monotonic):
        self._size = size
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: collections.OrderedDict[str, tuple[float, T]] = collections.OrderedDict()

    def find(self, key: str, seconds: float = 0.0) -> T | None:
        """Return what is kept under the key, for so many seconds more; None if nothing is."""
        with self._lock:
            found = self._find(key, seconds)
        return None if found is None else found[1]

    def get(self, key: str, make: Callable[[], T]) -> T:
        """Return what is kept under the key; make it, outside of the lock, if nothing is.

        Of what several threads make at once the first is kept, and all get that one.
        """
        with self._lock:
            found = self._find(key)
        if found is not None:
            return found[1]
        made = make()
        with self._lock:
            found = self._find(key)
            if found is not None:
                return found[1]
            self._put(key, made)
        return made

    def put(self, key: str, made: T) -> None:
        """Keep this one, in place of what is kept under the key."""
        with self._lock:
            self._put(key, made)

    def _find(self, key: str, seconds: float = 0.0) -> tuple[float, T] | None:
        found = self._kept.get(key)
        if found is None or self._clock() + seconds >= found[0] + self._seconds:
            return None
        self._kept.move_to_end(key)
        return found

    def _put(self, key: str, made: T) -> None:
        self._kept[key] = (self._clock(), made)
        self._kept.move_to_end(key)
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)

    def drop(self, key: str) -> None:
        """Forget one; it is fine if it is not there."""
        with self._lock:
            self._kept.pop(key, None)
