# SPDX-License-Identifier: Apache-2.0
"""Build the WSGI application of the API. The pipeline is code; operators add filters."""

import functools
import importlib
import shlex
import time
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import webob
import webob.dec
import webob.exc
from keystonemiddleware import auth_token
from oslo_config import cfg
from oslo_log import log
from oslo_middleware import cors, healthcheck, http_proxy_to_wsgi, request_id, sizelimit
from oslo_serialization import jsonutils

from climate_core import exceptions
from climate_core.api import auth, errors, registered_units, routes
from climate_core.api.request import (
    PARAMETERS,
    Backend,
    Request,
    check_microversion,
    read_query,
    set_microversion,
)
from climate_core.api.routing import Route, find_route, is_public
from climate_core.concurrency import ReservingLimit
from climate_core.context import RequestContext
from climate_core.db.engine import Database
from climate_core.lease import feeds
from climate_core.plugins import loading
from climate_core.plugins.base import ResourcePlugin
from climate_core.rpc.client import ManagerClient

LOG = log.getLogger(__name__)


class Fork:
    """Send requests to one application or to another, by their path."""

    def __init__(self, matches: Callable[[str], bool], matching: Any, others: Any) -> None:
        self._matches = matches
        self._matching = matching
        self._others = others

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        matches = self._matches(environ.get('PATH_INFO', '/'))
        return (self._matching if matches else self._others)(environ, start_response)


class MiddlewareError(Exception):
    """A filter of ``[api] middleware`` cannot be used."""


def _is_health(path: str) -> bool:
    return path.rstrip('/') == '/healthcheck'


def _filtered(application: Any, conf: cfg.ConfigOpts) -> Any:
    """Put the filters of ``[api] middleware`` around an application, the first one outermost.

    :raises MiddlewareError: one cannot be imported, or does not accept its options
    """
    if conf.api.middleware:
        # Filters see answers, not exceptions of the API.
        application = errors.Faults(application)
    for line in reversed(conf.api.middleware):
        try:
            name, *options = shlex.split(line)
            module, _, factory = name.partition(':')
            make = getattr(importlib.import_module(module), factory)
            given = dict(each.split('=', 1) for each in options)
            application = make({'oslo_config_config': conf}, **given)(application)
        except Exception as exc:  # Any code of an operator can raise anything.
            raise MiddlewareError(
                f'[api] middleware: "{line}" cannot be used: {type(exc).__name__}: {exc}. It must '
                'be "module:factory name=value ...", see the option.'
            ) from exc
    return application


class _TokenCheck(auth_token.AuthProtocol):  # type: ignore[misc]
    """Check tokens, and report a missing access rule as such, not as an invalid token."""

    def validate_allowed_request(self, request: Any, token: Mapping[str, Any]) -> None:
        """Reject what no access rule of an application credential allows."""
        try:
            super().validate_allowed_request(request, token)
        except auth_token.InvalidToken:
            error = exceptions.Unauthorized(
                f'The access rules of the application credential do not allow {request.method} '
                f'{feeds.redact(request.path)}. Create one with a rule of this method and path '
                f'for the service {self._conf.get("service_type")}.'
            )
            raise webob.exc.HTTPUnauthorized(
                body=jsonutils.dump_as_bytes(error.body),
                content_type='application/json',
                headers=[('WWW-Authenticate', f'Keystone uri="{self.www_authenticate_uri}"')],
            ) from None


def _authenticated(application: Any, conf: cfg.ConfigOpts) -> Any:
    if conf.api.auth_strategy == 'noauth':
        return auth.NoAuth(application)
    made = _TokenCheck(auth.Keystone(application), {'oslo_config_config': conf})
    # By this name the access rules of application credentials allow calls of this API.
    conf.set_default('service_type', 'reservation', 'keystone_authtoken')
    return made


#: Outermost first. The proxy's headers are read before anything makes links; every answer has a
#: request id and a line in the log, faults and refused origins included; browsers see faults too,
#: so CORS is outside of them; the health check asks nobody; the size is limited before Keystone is
#: asked, and the answers of all that is further in become JSON in Faults. Authentication is
#: innermost and only for what is not public, with the operator's own filters inside of it.
_PIPELINE: tuple[Callable[[Any, cfg.ConfigOpts], Any], ...] = (
    http_proxy_to_wsgi.HTTPProxyToWSGI,
    request_id.RequestId,
    lambda application, _conf: RequestLog(application),
    cors.CORS,
    lambda application, _conf: errors.Faults(application),
    lambda application, conf: Fork(_is_health, healthcheck.Healthcheck(None, conf), application),
    sizelimit.RequestBodySizeLimiter,
    lambda application, conf: Fork(
        functools.partial(is_public, routes.ROUTES),
        application,
        _authenticated(_filtered(application, conf), conf),
    ),
)

_CORS = {
    'allow_headers': [
        'X-Auth-Token',
        'OpenStack-API-Version',
        'X-OpenStack-Request-ID',
        'If-Match',
        'Idempotency-Key',
    ],
    'expose_headers': [
        'X-OpenStack-Request-ID',
        'OpenStack-API-Version',
        'ETag',
        'Retry-After',
    ],
    'allow_methods': ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'],
}


#: Bytes: a lease of as many reservations as the schema allows, with all their parameters, and a
#: stack as large as Heat takes it (heat.conf max_json_body_size).
_MAX_BODY_BYTES = (512 + 1024) * 1024


def _spare_one_thread() -> int | None:
    """Return the threads of this uWSGI process but one; None for another WSGI server.

    A process of one thread has none to spare: its limit is 1.
    """
    try:
        import uwsgi
    except ImportError:
        return None
    return max(1, int(uwsgi.opt.get('threads', 1)) - 1)


def load_application(
    conf: cfg.ConfigOpts,
    database: Database | None = None,
    manager: ManagerClient | None = None,
    plugins: Mapping[str, type[ResourcePlugin]] | None = None,
) -> Any:
    """Make the WSGI application of the API.

    :param conf: see :func:`climate_core.conf.load`
    :param database: to share one with other parts of the same process
    :param manager: to share an RPC transport with other parts of the same process
    :param plugins: by type of resource; default: those of ``[manager] plugins``
    :raises MiddlewareError: a filter of ``[api] middleware`` cannot be used
    :raises climate_core.plugins.loading.PluginError: a plugin of climate.conf cannot be used
    """
    if plugins is None:
        plugins = {each.resource_type: each for each in loading.load_classes(conf.manager.plugins)}
    backend = Backend(
        conf,
        database or Database(conf),
        manager or ManagerClient(conf),
        plugins,
        ReservingLimit(conf.api.max_reserving_requests or _spare_one_thread()),
    )
    for name, value in _CORS.items():
        conf.set_default(name, value, group='cors')
    conf.set_default('max_request_body_size', _MAX_BODY_BYTES, group='oslo_middleware')
    return functools.reduce(
        lambda application, wrap: wrap(application, conf),
        reversed(_PIPELINE),
        Application(backend),
    )


class Application:
    """A WSGI application that raises what goes wrong, see :class:`errors.Faults`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable:
        request = Request(environ)
        route, variables = _find_route(request)
        if route.policy is not None:
            check_microversion(request)
            # Public paths accept any query string, since clients and probes add their own.
            request.environ[PARAMETERS] = read_query(request, route.query)
            if request.method == 'POST' and route.request_schema is None:
                request.reject_body()
        try:
            response = route.handler(self._backend, request, **variables)
        except exceptions.UnknownProperty as error:
            raise registered_units.add_known_properties(
                self._backend, request.context, error
            ) from error
        if route.policy is not None:
            set_microversion(response)
        return response(environ, start_response)


def _find_route(request: Request) -> tuple[Route, dict[str, str]]:
    found = find_route(routes.ROUTES, request.path_info)
    if found is None:
        raise errors.PathNotFound(f'There is nothing at {request.path_info}.')
    methods, variables = found
    route = methods.get('GET' if request.method == 'HEAD' else request.method)
    if route is None:
        allowed = ', '.join(sorted(methods))
        raise errors.MethodNotAllowed(
            f'{request.method} is not allowed here, only {allowed}.', allow=allowed
        )
    return route, variables


class RequestLog:
    """Middleware that logs. It wants the ids that ``oslo_middleware.request_id`` leaves.

    Until the user is known the context of the thread has nothing but the ids, so that nothing is
    logged under the name of the request before.
    """

    def __init__(self, application: Any) -> None:
        self._application = application

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        began = time.monotonic()
        RequestContext(
            request_id=request.environ.get(request_id.ENV_REQUEST_ID),
            global_request_id=request.environ.get(request_id.GLOBAL_REQ_ID),
            overwrite=True,
        )
        response = request.get_response(self._application)
        LOG.info(
            '%s %s: %d, %d bytes, %.3f s',
            request.method,
            _logged_path(request.environ),
            response.status_int,
            response.content_length or 0,
            time.monotonic() - began,
        )
        return response


def _logged_path(environ: dict[str, Any]) -> str:
    """Return the path as it was sent, also if it is not UTF-8, as WebOb requires.

    It has no query, and no token of a feed that a client has put into the path.
    """
    path: str = environ.get('SCRIPT_NAME', '') + environ.get('PATH_INFO', '')
    return feeds.redact(urllib.parse.quote(path.encode('latin-1')))
