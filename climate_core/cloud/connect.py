# SPDX-License-Identifier: Apache-2.0
"""Connections to the cloud, with the rights of the service, of an owner, or of a user.

All of them share one pool of TCP connections and one cache of discovered endpoints, so a wake-up
costs the owner's token and the calls to Nova, and nothing else.
"""

import functools
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NoReturn

from keystoneauth1 import exceptions as ksa
from keystoneauth1 import plugin, service_token
from keystoneauth1 import session as ks_session
from keystoneauth1.identity import base
from oslo_config import cfg
from oslo_log import log

from climate_core.cloud import auth, errors, session
from climate_core.cloud.connection import Connection

if TYPE_CHECKING:
    from climate_core.context import RequestContext

LOG = log.getLogger(__name__)

#: Seconds that an owner's connection is kept; its token is renewed by keystoneauth when needed.
_OWNER_SECONDS = 1800.0
#: Seconds before its end in which keystoneauth replaces a token.
_LEAST_SECONDS = base.BaseIdentityPlugin.MIN_TOKEN_LIFE_SECONDS
#: What Keystone answers if a trust gives no token any more.
_REFUSED = (ksa.Unauthorized, ksa.Forbidden, ksa.NotFound)


class Cloud:
    """The cloud that the lease service works for. Nothing is sent before the first call.

    :param conf: with the section ``[cloud]``
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.conf = conf
        self._owners: auth.RecentCache[Connection] = auth.RecentCache(
            conf.cloud.owner_cache_size, _OWNER_SECONDS
        )
        #: Called with the id of a trust whose token Keystone refuses to give for a lease.
        self.on_refusal: Callable[[str], None] = lambda _trust_id: None

    @functools.cached_property
    def _base(self) -> ks_session.Session:
        return session.load(self.conf)

    @functools.cached_property
    def _service_auth(self) -> plugin.BaseAuthPlugin:
        return auth.service(self.conf)

    @functools.cached_property
    def _service(self) -> Connection:
        return self._connect(self._service_auth, 'service')

    def service(self) -> Connection:
        """Return the connection with the rights of the service user."""
        return self._service

    def service_user_id(self) -> str:
        """Return the id of the service user."""
        with errors.translated('Keystone'):
            return str(self._service_auth.get_user_id(self._base))

    def service_token(self) -> str:
        """Return a token of the service user."""
        with errors.translated('Keystone'):
            return str(self._service_auth.get_token(self._base))

    def auth_url(self) -> str | None:
        """Return the URL of Keystone, as section ``[cloud]`` has it."""
        return getattr(self._service_auth, 'auth_url', None)

    def catalog_urls(self) -> list[str]:
        """Return the URLs of all endpoints in the service catalog of the service user."""
        with errors.translated('Keystone'):
            identity = self._service_auth
            if not isinstance(identity, base.BaseIdentityPlugin):
                return []
            access = identity.get_access(self._base)
        if not access.has_service_catalog():
            return []
        return [url for url in access.service_catalog.get_urls(interface=None) if url]

    def user(self, context: 'RequestContext') -> Connection:
        """Return a connection with the token of a request, plus the service's token."""
        token = auth.ForwardedToken(context.auth_token, context.project_id, self._service_auth)
        identity = service_token.ServiceTokenAuthWrapper(token, self._service_auth)
        return self._connect(identity, (context.auth_token, context.project_id))

    def owner(self, trust_id: str) -> Connection:
        """Return a connection with a token of this trust, plus the service's token.

        :raises climate_core.cloud.errors.TrustRefused: the trust, its owner or a delegated role
            is no more
        :raises climate_core.exceptions.Transient: Keystone does not answer, or does not know the
            service user
        """

        conn = self._owners.get(trust_id, lambda: self._make_owner(trust_id))
        self._accept(trust_id, conn)
        return conn

    def prepare(self, trust_id: str, seconds: float) -> bool:
        """Have a token of this trust that :meth:`owner` finds for so many seconds.

        It raises what :meth:`owner` does. Who needs the connection meanwhile does not wait for it.

        :returns: whether Keystone was asked for one
        """
        kept = self._owners.find(trust_id, seconds)
        if kept is not None and not _expires(kept, seconds):
            return False
        conn = self._make_owner(trust_id)
        self._accept(trust_id, conn)
        with errors.translated('Keystone'):
            self._service_auth.get_token(self._base)
        self._owners.put(trust_id, conn)
        return True

    def _make_owner(self, trust_id: str) -> Connection:
        return self._connect(auth.owner(self.conf, trust_id, self._service_auth))

    def _accept(self, trust_id: str, conn: Connection) -> None:
        """Have a token of a trust for a connection."""
        with errors.translated('Keystone'):
            try:
                conn.session.get_token()
            except _REFUSED as exc:
                try:
                    self._refuse(trust_id, exc)
                except errors.TrustRefused:
                    self.on_refusal(trust_id)
                    raise

    def roles(self, trust_id: str) -> list[str]:
        """Return the names of the roles that a trust gives, by a new token: as it is now.

        It raises what :meth:`owner` does.
        """
        identity: Any = auth.trust(self.conf, trust_id)
        with errors.translated('Keystone'):
            try:
                return list(identity.get_access(self._base).role_names)
            except _REFUSED as exc:
                self._refuse(trust_id, exc)

    def owner_roles(self, trust_id: str) -> dict[str, str]:
        """Return the roles with which :meth:`owner` works, id -> name; it raises the same."""
        identity: Any = self.owner(trust_id).session.auth
        with errors.translated('Keystone'):
            access = identity.user_auth.get_access(self._base)
        return dict(zip(access.role_ids, access.role_names, strict=True))

    def _refuse(self, trust_id: str, exc: Exception) -> NoReturn:
        # Raise what keystoneauth does if it is the service user that is not accepted.
        self._service_auth.invalidate()
        self._service_auth.get_token(self._base)
        self._owners.drop(trust_id)
        LOG.warning('Keystone does not accept trust %s: %s', trust_id, exc)
        raise errors.TrustRefused(
            "Keystone does not accept the trust of the lease's owner any more: "
            f'{errors.public(str(exc))}'
        ) from exc

    def _connect(self, identity: plugin.BaseAuthPlugin, rights: Hashable = None) -> Connection:
        base = self._base
        own = session.Session(
            auth=identity,
            session=base.session,
            verify=base.verify,
            cert=base.cert,
            timeout=base.timeout,
            discovery_cache=base._discovery_cache,
            app_name='climate',
        )
        options = self.conf.cloud
        return Connection(
            own,
            options.valid_interfaces,
            options.region_name,
            {
                'compute': options.compute_endpoint_override,
                'block-storage': options.block_storage_endpoint_override,
            },
            rights,
        )


def _expires(conn: Connection, seconds: float) -> bool:
    """Tell whether a connection needs another token within so many seconds, or has none."""
    identity: Any = conn.session.auth
    access = identity.user_auth.auth_ref
    return access is None or access.will_expire_soon(seconds + _LEAST_SECONDS)
