# SPDX-License-Identifier: Apache-2.0
"""Connections to the cloud, with the rights of the service, of a lease owner or of a user.

All of them share one pool of TCP connections and one cache of discovered endpoints, so a wake-up
costs the owner's token and the calls to Nova, and nothing else. They use keystoneauth alone:
openstacksdk, whose proxies of all services take 11 MiB, would only pass the requests on.
"""

import copy
import functools
import os
import re
import urllib.request
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from keystoneauth1 import adapter, discover, loading, plugin, service_token
from keystoneauth1 import exceptions as ksa
from keystoneauth1 import session as ks_session
from keystoneauth1.access import AccessInfo
from keystoneauth1.identity import base
from oslo_config import cfg
from oslo_context import context
from oslo_log import log

from climate_core import concurrency, exceptions
from climate_core.cloud import errors
from climate_core.conf import cloud as cloud_conf
from climate_core.db import trusts
from climate_core.db.engine import DATABASE_ERRORS, Database

if TYPE_CHECKING:
    import requests

    from climate_core.context import RequestContext

LOG = log.getLogger(__name__)

#: Variables with a file of certificates, and files with passwords, which requests uses.
_CERTIFICATES = ('REQUESTS_CA_BUNDLE', 'CURL_CA_BUNDLE')
_PASSWORDS = ('~/.netrc', '~/_netrc')
#: A URL with the version of an API.
_VERSIONED = re.compile(r'/v[0-9]+(\.[0-9]+)?(/|$)')


def load_session(conf: cfg.ConfigOpts) -> ks_session.Session:
    """Load the session of section ``[cloud]``, whose TCP connections the other sessions share."""
    made = loading.load_session_from_conf_options(conf, cloud_conf.GROUP)
    if made.verify is True:
        made.verify = next(filter(None, map(os.environ.get, _CERTIFICATES)), True)
    made.session.trust_env = _has_proxies_or_passwords()
    return made


def _has_proxies_or_passwords() -> bool:
    """Return whether requests would look up a proxy or a password for each URL."""
    given = os.environ.get('NETRC')
    files = map(os.path.expanduser, [given] if given else _PASSWORDS)
    return bool(urllib.request.getproxies()) or any(map(os.path.exists, files))


class Session(ks_session.Session):
    """A session that caches endpoints and sends the id of the request that this thread handles.

    For an event that is ``req-<event id>``. Threads share connections, so the id cannot be a
    property of the connection. Of a call that takes 0.9 ms of CPU, keystoneauth took a sixth to
    find the endpoint in the catalog, and requests a seventh to look for proxies in the
    environment.
    """

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self._endpoints: dict[str, tuple[AccessInfo, str]] = {}

    def request(self, *args: Any, **kw: Any) -> 'requests.Response':
        current = context.get_current()
        if current is not None and not kw.get('global_request_id'):
            kw['global_request_id'] = current.global_id
        return super().request(*args, **kw)

    def get_endpoint(self, auth: plugin.BaseAuthPlugin | None = None, **kwargs: Any) -> str | None:
        """Return the endpoint that keystoneauth finds, once for each token and its catalog."""
        identity = getattr(self.auth, 'user_auth', self.auth)
        if auth is not None or not isinstance(identity, base.BaseIdentityPlugin):
            return self._discover(auth, **kwargs)
        key, access = repr(kwargs), identity.get_access(self)
        cached = self._endpoints.get(key)
        if cached is not None and cached[0] is access:
            return cached[1]
        endpoint = self._discover(**kwargs)
        if endpoint is not None:
            self._endpoints[key] = access, endpoint
        return endpoint

    def _discover(
        self,
        auth: plugin.BaseAuthPlugin | None = None,
        version: str | None = None,
        **kwargs: Any,
    ) -> str | None:
        """Return the endpoint of a service in a version of its API.

        keystoneauth returns the URL of the catalog, without a version, if the service does not
        answer at this moment (keystoneauth1/discover.py ``_set_version_info``). A service that
        answers 404 there a moment later would look as if the resource did not exist.

        :raises keystoneauth1.exceptions.DiscoveryFailure: the service does not return its versions
        """
        endpoint = super().get_endpoint(auth, version=version, **kwargs)
        if endpoint is None or version is None or _VERSIONED.search(endpoint):
            return endpoint
        latest = f'{version.partition(".")[0]}.latest'
        found = self.get_endpoint_data(
            auth, min_version=version, max_version=latest, discover_versions=False, **kwargs
        )
        if found is None or found.service_url is None:
            raise ksa.DiscoveryFailure(f'{endpoint} does not return its versions')
        return found.service_url


class Connection:
    """An identity, and the endpoints that are used with it.

    :param session: sends requests with the rights of the identity
    :param interfaces: interfaces of endpoints, the preferred one first; none: ``public``
    :param region_name: region of the endpoints; None: the first one in the catalog
    :param overrides: service types, as in the catalog -> URLs that override the catalog
    :param rights: equal for connections with equal rights; None: not comparable
    """

    def __init__(
        self,
        session: ks_session.Session,
        interfaces: Sequence[str] = (),
        region_name: str | None = None,
        overrides: Mapping[str, str | None] | None = None,
        rights: Hashable = None,
    ) -> None:
        self.session = session
        self._interfaces = list(interfaces) or None
        self._region_name = region_name
        self._overrides = overrides or {}
        self.rights = rights

    @property
    def current_project_id(self) -> str | None:
        """Return the id of the project that the token is scoped to."""
        return self.session.get_project_id()

    def client(self, service_type: str, version: str | None = None) -> adapter.Adapter:
        """Return an adapter for a service. It looks for the endpoint with each request.

        So it finds a service that is added to the cloud later.

        :param service_type: as in the catalog, ``block-storage``
        :param version: the major version of its API; None: the version in the catalog
        """
        return adapter.Adapter(
            session=self.session,
            service_type=service_type,
            version=version,
            interface=self._interfaces,
            region_name=self._region_name,
            endpoint_override=self._overrides.get(service_type),
        )


#: Options that say what a token is for; a trust replaces them all.
_SCOPE_OPTIONS = (
    'project_id',
    'project_name',
    'project_domain_id',
    'project_domain_name',
    'domain_id',
    'domain_name',
    'system_scope',
)


class ForwardedToken(plugin.BaseAuthPlugin):
    """The token of a user's request, with the catalog of the service user.

    It saves a request to Keystone for the user's own catalog. The endpoints are the same, but for
    the project id that the endpoint of Cinder may contain: the id of the service's project is
    replaced with that of the user's.
    """

    def __init__(self, token: str | None, project_id: str | None, catalog: plugin.BaseAuthPlugin):
        super().__init__()
        self._token = token
        self._project_id = project_id
        self._catalog = catalog

    def get_token(self, session: ks_session.Session) -> str | None:  # noqa: ARG002
        return self._token

    def get_project_id(self, session: ks_session.Session) -> str | None:  # noqa: ARG002
        return self._project_id

    def get_endpoint(self, session: ks_session.Session, **kwargs: Any) -> str | None:
        return self._replace_project(session, self._catalog.get_endpoint(session, **kwargs))

    def get_endpoint_data(
        self, session: ks_session.Session, **kwargs: Any
    ) -> discover.EndpointData | None:
        shared = self._catalog.get_endpoint_data(session, **kwargs)
        if shared is None:
            return None
        # The cache of discovered endpoints, which all connections share, has the original.
        own = copy.copy(shared)
        own.catalog_url = self._replace_project(session, shared.catalog_url)
        own.service_url = self._replace_project(session, shared.service_url)
        return own

    def _replace_project(self, session: ks_session.Session, url: str | None) -> str | None:
        """Replace the service's project at the end of a URL with the user's."""
        project_id = self._catalog.get_project_id(session)
        bare = url.rstrip('/') if url else ''
        if not project_id or not self._project_id or not bare.endswith(f'/{project_id}'):
            return url
        return bare.removesuffix(project_id) + self._project_id

    def get_api_major_version(self, session: ks_session.Session, **kwargs: Any) -> Any:
        return self._catalog.get_api_major_version(session, **kwargs)

    def invalidate(self) -> bool:
        """Return False: the service cannot get another token of a user."""
        return False


def owner_identity(
    conf: cfg.ConfigOpts, trust_id: str, service_auth: plugin.BaseAuthPlugin
) -> plugin.BaseAuthPlugin:
    """Return the identity of a lease's owner: a token of the trust plus the service's token."""
    return service_token.ServiceTokenAuthWrapper(trust_identity(conf, trust_id), service_auth)


def trust_identity(conf: cfg.ConfigOpts, trust_id: str) -> plugin.BaseAuthPlugin:
    """Return the identity that has only a token of a trust."""
    return service_identity(conf, trust_id=trust_id, **dict.fromkeys(_SCOPE_OPTIONS))


def service_identity(conf: cfg.ConfigOpts, **options: Any) -> plugin.BaseAuthPlugin:
    """Return the identity of the service user, from section ``[cloud]``.

    :param options: override those of the section
    :raises climate_core.exceptions.Transient: the section is empty or incomplete
    """
    with errors.translated('Keystone'):
        auth = loading.load_auth_from_conf_options(conf, cloud_conf.GROUP, **options)
    if auth is None:
        raise exceptions.Transient(f'[{cloud_conf.GROUP}] auth_type is not set.')
    return auth


#: Seconds that an owner's connection is cached. keystoneauth renews its token when needed.
_OWNER_SECONDS = 1800.0
#: Seconds before its expiry in which keystoneauth replaces a token.
_RENEWAL_SECONDS = base.BaseIdentityPlugin.MIN_TOKEN_LIFE_SECONDS
#: The errors of Keystone if a trust no longer issues tokens.
_TRUST_REJECTED = (ksa.Unauthorized, ksa.Forbidden, ksa.NotFound)


class Cloud:
    """The connections to the cloud of the lease service. Nothing is sent before the first call.

    :param conf: with the section ``[cloud]``
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.conf = conf
        self._owners: concurrency.RecentCache[Connection] = concurrency.RecentCache(
            conf.cloud.owner_cache_size, _OWNER_SECONDS
        )
        #: Where trusts that Keystone rejects are retired; None: nowhere, as in the API.
        self.database: Database | None = None

    @functools.cached_property
    def _shared_session(self) -> ks_session.Session:
        return load_session(self.conf)

    @functools.cached_property
    def _service_auth(self) -> plugin.BaseAuthPlugin:
        return service_identity(self.conf)

    @functools.cached_property
    def _service(self) -> Connection:
        return self._connect(self._service_auth, 'service')

    def service(self) -> Connection:
        """Return the connection with the rights of the service user."""
        return self._service

    def service_user_id(self) -> str:
        """Return the id of the service user."""
        with errors.translated('Keystone'):
            return str(self._service_auth.get_user_id(self._shared_session))

    def service_token(self) -> str:
        """Return a token of the service user."""
        with errors.translated('Keystone'):
            return str(self._service_auth.get_token(self._shared_session))

    def auth_url(self) -> str | None:
        """Return the URL of Keystone from section ``[cloud]``."""
        return getattr(self._service_auth, 'auth_url', None)

    def catalog_urls(self) -> list[str]:
        """Return the URLs of all endpoints in the service catalog of the service user."""
        with errors.translated('Keystone'):
            identity = self._service_auth
            if not isinstance(identity, base.BaseIdentityPlugin):
                return []
            access = identity.get_access(self._shared_session)
        if not access.has_service_catalog():
            return []
        return [url for url in access.service_catalog.get_urls(interface=None) if url]

    def user(self, context: 'RequestContext') -> Connection:
        """Return a connection with the token of a request, plus the service's token."""
        token = ForwardedToken(context.auth_token, context.project_id, self._service_auth)
        identity = service_token.ServiceTokenAuthWrapper(token, self._service_auth)
        return self._connect(identity, (context.auth_token, context.project_id))

    def owner(self, trust_id: str) -> Connection:
        """Return a connection with a token of this trust, plus the service's token.

        :raises climate_core.cloud.errors.TrustRejected: the trust, its owner or a delegated role
            no longer exists
        :raises climate_core.exceptions.Transient: Keystone does not answer, or does not know the
            service user
        """
        conn = self._owners.get(trust_id, lambda: self._make_owner(trust_id))
        self._get_owner_token(trust_id, conn)
        return conn

    def prepare(self, trust_id: str, seconds: float) -> bool:
        """Get a token of this trust in advance, so that :meth:`owner` has one for some seconds.

        It raises what :meth:`owner` does. Other users of the connection do not wait for it.

        :returns: whether a token was requested from Keystone
        """
        cached = self._owners.find(trust_id, seconds)
        if cached is not None and not _needs_new_token(cached, seconds):
            return False
        conn = self._make_owner(trust_id)
        self._get_owner_token(trust_id, conn)
        with errors.translated('Keystone'):
            self._service_auth.get_token(self._shared_session)
        self._owners.put(trust_id, conn)
        return True

    def _make_owner(self, trust_id: str) -> Connection:
        return self._connect(owner_identity(self.conf, trust_id, self._service_auth))

    def _get_owner_token(self, trust_id: str, conn: Connection) -> None:
        """Get a token for the connection of a trust, which may be rejected."""
        with errors.translated('Keystone'):
            try:
                conn.session.get_token()
            except _TRUST_REJECTED as exc:
                try:
                    self._raise_trust_refused(trust_id, exc)
                except errors.TrustRejected:
                    self._retire_trust(trust_id)
                    raise

    def _retire_trust(self, trust_id: str) -> None:
        """Let no new lease share a trust that Keystone rejects; its leases keep it."""
        if self.database is None:
            return
        try:
            self.database.write(trusts.retire, [trust_id])
        except DATABASE_ERRORS:
            message = 'New leases may still share the trust %s, which Keystone rejects'
            LOG.warning(message, trust_id, exc_info=True)

    def roles(self, trust_id: str) -> list[str]:
        """Return the names of the roles that a trust delegates now, from a new token.

        It raises what :meth:`owner` does.
        """
        identity: Any = trust_identity(self.conf, trust_id)
        with errors.translated('Keystone'):
            try:
                return list(identity.get_access(self._shared_session).role_names)
            except _TRUST_REJECTED as exc:
                self._raise_trust_refused(trust_id, exc)

    def owner_roles(self, trust_id: str) -> dict[str, str]:
        """Return the roles of the token of :meth:`owner`, id -> name; it raises the same."""
        identity: Any = self.owner(trust_id).session.auth
        with errors.translated('Keystone'):
            access = identity.user_auth.get_access(self._shared_session)
        return dict(zip(access.role_ids, access.role_names, strict=True))

    def _raise_trust_refused(self, trust_id: str, exc: Exception) -> NoReturn:
        # If Keystone rejects the service user, this raises the error of keystoneauth.
        self._service_auth.invalidate()
        self._service_auth.get_token(self._shared_session)
        self._owners.drop(trust_id)
        LOG.warning('Keystone does not accept trust %s: %s', trust_id, exc)
        raise errors.TrustRejected(
            "Keystone does not accept the trust of the lease's owner any more: "
            f'{errors.redact(str(exc))}'
        ) from exc

    def _connect(self, identity: plugin.BaseAuthPlugin, rights: Hashable = None) -> Connection:
        base = self._shared_session
        own = Session(
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


def _needs_new_token(conn: Connection, seconds: float) -> bool:
    """Return whether a connection has no token, or needs another within some seconds."""
    identity: Any = conn.session.auth
    access = identity.user_auth.auth_ref
    return access is None or access.will_expire_soon(seconds + _RENEWAL_SECONDS)
