# SPDX-License-Identifier: Apache-2.0
"""Send requests with what each call would find out again: the endpoint, and the environment.

Of a call that takes 0.9 ms of CPU, keystoneauth took a sixth to look the endpoint up in the
catalogue, and requests a seventh to look for proxies in the environment.
"""

import os
import urllib.request
from typing import TYPE_CHECKING, Any

from keystoneauth1 import loading, plugin
from keystoneauth1 import session as ks_session
from keystoneauth1.access import AccessInfo
from keystoneauth1.identity import base
from oslo_config import cfg
from oslo_context import context

from climate_core.conf import cloud as cloud_conf

if TYPE_CHECKING:
    import requests

#: Variables with a file of certificates, and files with passwords, which requests uses.
_CERTIFICATES = ('REQUESTS_CA_BUNDLE', 'CURL_CA_BUNDLE')
_PASSWORDS = ('~/.netrc', '~/_netrc')


def load(conf: cfg.ConfigOpts) -> ks_session.Session:
    """Return the session of section ``[cloud]``, of which others share the connections."""
    made = loading.load_session_from_conf_options(conf, cloud_conf.GROUP)
    if made.verify is True:
        made.verify = next(filter(None, map(os.environ.get, _CERTIFICATES)), True)
    made.session.trust_env = _has_more()
    return made


def _has_more() -> bool:
    """Tell whether the environment has proxies or passwords, of which URLs choose theirs."""
    given = os.environ.get('NETRC')
    files = map(os.path.expanduser, [given] if given else _PASSWORDS)
    return bool(urllib.request.getproxies()) or any(map(os.path.exists, files))


class Session(ks_session.Session):
    """Remembers endpoints, and sends the id of what this thread works on.

    That is a request, or ``req-<event id>``. Connections are kept and shared by threads, so it
    cannot be a property of the connection.
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
        """Return what keystoneauth finds, once for each token: that has the catalogue."""
        identity = getattr(self.auth, 'user_auth', self.auth)
        if auth is not None or not isinstance(identity, base.BaseIdentityPlugin):
            return super().get_endpoint(auth, **kwargs)
        asked, access = repr(kwargs), identity.get_access(self)
        known = self._endpoints.get(asked)
        if known is not None and known[0] is access:
            return known[1]
        found = super().get_endpoint(**kwargs)
        if found is not None:
            self._endpoints[asked] = access, found
        return found
