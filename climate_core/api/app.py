# SPDX-License-Identifier: Apache-2.0
"""The WSGI application of the API: the pipeline of middleware, and the dispatch of requests.

The pipeline is code; operators add filters with ``[api] middleware``.
"""

import functools
import importlib
import re
import shlex
import time
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import webob
import webob.dec
import webob.exc
from keystonemiddleware import auth_token
from oslo_config import cfg
from oslo_log import log
from oslo_middleware import cors, healthcheck, http_proxy_to_wsgi, request_id, sizelimit
from oslo_serialization import jsonutils

from climate_core import exceptions
from climate_core.api import errors, policy, registered_units, routes
from climate_core.api.request import (
    PARAMETERS,
    Backend,
    Request,
    Route,
    check_microversion,
    read_query,
    set_microversion,
)
from climate_core.concurrency import ReservingLimit
from climate_core.context import RequestContext
from climate_core.db import feeds
from climate_core.db.engine import Database
from climate_core.plugins import loading
from climate_core.plugins.base import ResourcePlugin
from climate_core.rpc import ManagerClient

LOG = log.getLogger(__name__)


class MiddlewareError(Exception):
    """A filter of ``[api] middleware`` that cannot be used."""


def _filtered(application: Any, conf: cfg.ConfigOpts) -> Any:
    """Wrap an application in the filters of ``[api] middleware``, the first one outermost.

    :raises MiddlewareError: a filter cannot be imported, or does not accept its options
    """
    if conf.api.middleware:
        # Filters receive responses, not exceptions of the API.
        application = errors.Faults(application)
    for line in reversed(conf.api.middleware):
        try:
            name, *options = shlex.split(line)
            module, _, factory = name.partition(':')
            create = getattr(importlib.import_module(module), factory)
            values = dict(option.split('=', 1) for option in options)
            application = create({'oslo_config_config': conf}, **values)(application)
        except Exception as exc:  # A filter of an operator can raise anything.
            raise MiddlewareError(
                f'[api] middleware: "{line}" cannot be used: {type(exc).__name__}: {exc}. It must '
                'be "module:factory name=value ...", see the option.'
            ) from exc
    return application


class _TokenCheck(auth_token.AuthProtocol):  # type: ignore[misc]
    """Validate tokens; report a missing access rule as such, not as an invalid token."""

    def validate_allowed_request(self, request: Any, token: Mapping[str, Any]) -> None:
        """Reject a request that no access rule of an application credential allows."""
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
        return policy.NoAuth(application)
    middleware = _TokenCheck(policy.Keystone(application), {'oslo_config_config': conf})
    # Access rules of application credentials name the service by its type.
    conf.set_default('service_type', 'reservation', 'keystone_authtoken')
    return middleware


class _HealthFork:
    """Answer ``/healthcheck`` with one application, and all other paths with another one."""

    def __init__(self, health: Any, other: Any) -> None:
        self._health = health
        self._other = other

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        is_health = environ.get('PATH_INFO', '/').rstrip('/') == '/healthcheck'
        return (self._health if is_health else self._other)(environ, start_response)


class _TokenFork:
    """Find the routes of a request, and require a token unless all of them are public."""

    def __init__(self, application: Any, guarded: Any) -> None:
        self._application = application
        self._guarded = guarded

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        match = environ[_MATCH] = find_route(environ.get('PATH_INFO', '/'))
        chosen = self._application if is_public(match) else self._guarded
        return chosen(environ, start_response)


class RequestLog:
    """Middleware that logs a line for each request. It needs ``oslo_middleware.request_id``.

    It sets a context with nothing but the request ids, so that no line before the authentication
    is logged with the user of the previous request of the thread.
    """

    def __init__(self, application: Any) -> None:
        self._application = application

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        started = time.monotonic()
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
            time.monotonic() - started,
        )
        return response


def _logged_path(environ: dict[str, Any]) -> str:
    """Return the path of a request without its query and without tokens of feeds.

    WebOb cannot decode a path that is not UTF-8; this can.
    """
    path: str = environ.get('SCRIPT_NAME', '') + environ.get('PATH_INFO', '')
    return feeds.redact(urllib.parse.quote(path.encode('latin-1')))


class Application:
    """Dispatch requests by the route table. Errors are raised, see :class:`errors.Faults`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable:
        request = Request(environ)
        route, variables = _get_route(request)
        if route.policy is not None:
            check_microversion(request)
            # Public paths accept any query string: clients and probes add parameters.
            request.environ[PARAMETERS] = read_query(
                request, route.query, ignores_unknown=route.ignores_unknown
            )
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


#: The routes of a path by method, and the variables of the path.
Match = tuple[Mapping[str, Route], dict[str, str]]
#: The key of the environment of a request with its match; None: the path is unknown.
_MATCH: Final = 'climate.match'
#: Path variables that are no ids -> their patterns.
PATH_VARIABLES: Final[Mapping[str, str]] = {'property_name': r'[0-9A-Za-z_.:-]+?'}
_ID: Final = '[0-9A-Za-z-]+'


def find_route(path: str) -> Match | None:
    """Find the routes of a path, with or without ``.json`` or a slash at its end.

    :returns: the route of each method, and the variables of the path with ids in lower case;
        None if the path is unknown
    """
    for template, methods in routes.ROUTES.items():
        match = _pattern(template).fullmatch(path)
        if match:
            return methods, {
                name: text if name in PATH_VARIABLES else text.lower()
                for name, text in match.groupdict().items()
            }
    return None


@functools.cache
def _pattern(template: str) -> re.Pattern[str]:
    def named(variable: re.Match[str]) -> str:
        return f'(?P<{variable[1]}>{PATH_VARIABLES.get(variable[1], _ID)})'

    path = re.sub(r'\{(\w+)\}', named, template.replace('.', r'\.').rstrip('/'))
    return re.compile(path + r'(\.json|/)?')


def is_public(match: Match | None) -> bool:
    """Return whether no call of a path needs a token of Keystone.

    :param match: see :func:`find_route`
    """
    return match is not None and all(route.policy is None for route in match[0].values())


def _get_route(request: Request) -> tuple[Route, dict[str, str]]:
    match: Match | None = request.environ[_MATCH]
    if match is None:
        raise errors.PathNotFound(f'The path {request.path_info} does not exist.')
    methods, variables = match
    route = methods.get('GET' if request.method == 'HEAD' else request.method)
    if route is None:
        allowed = ', '.join(sorted(methods))
        raise errors.MethodNotAllowed(
            f'{request.method} is not allowed here, only {allowed}.', allow=allowed
        )
    return route, variables


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


#: A lease with as many reservations as the schema allows, with all their parameters, and a stack
#: of the largest size that Heat accepts (heat.conf max_json_body_size).
_MAX_BODY_BYTES = (512 + 1024) * 1024


def load_application(
    conf: cfg.ConfigOpts,
    database: Database | None = None,
    manager: ManagerClient | None = None,
    plugins: Mapping[str, type[ResourcePlugin]] | None = None,
) -> Any:
    """Create the WSGI application of the API.

    :param conf: see :func:`climate_core.conf.load`
    :param database: a database that other parts of the process share
    :param manager: an RPC client that other parts of the process share
    :param plugins: the plugins by type of resource; default: those of ``[manager] plugins``
    :raises MiddlewareError: a filter of ``[api] middleware`` cannot be used
    :raises climate_core.plugins.loading.PluginError: a plugin of climate.conf cannot be used
    """
    if plugins is None:
        enabled = loading.load_classes(conf.manager.plugins)
        plugins = {plugin.resource_type: plugin for plugin in enabled}
    backend = Backend(
        conf,
        database or Database(conf),
        manager or ManagerClient(conf),
        plugins,
        ReservingLimit(
            conf.api.max_reserving_requests or _spare_one_thread(),
            loading.list_local_types(plugins.values()),
        ),
    )
    for name, value in _CORS.items():
        conf.set_default(name, value, group='cors')
    conf.set_default('max_request_body_size', _MAX_BODY_BYTES, group='oslo_middleware')
    return _wrap(Application(backend), conf)


def _wrap(application: Any, conf: cfg.ConfigOpts) -> Any:
    """Wrap the application in its middleware, from the inside to the outside."""
    # Public paths need no token, and do not pass the filters of the operator.
    guarded = _authenticated(_filtered(application, conf), conf)
    wrapped: Any = _TokenFork(application, guarded)
    # The body is limited before Keystone is called, and the health check needs no token.
    wrapped = sizelimit.RequestBodySizeLimiter(wrapped, conf)
    wrapped = _HealthFork(healthcheck.Healthcheck(None, conf), wrapped)
    # The errors of all inner parts become JSON, which browsers can read because of CORS.
    wrapped = cors.CORS(errors.Faults(wrapped), conf)
    # Each response has a request id and a line in the log, also faults and rejected origins.
    wrapped = request_id.RequestId(RequestLog(wrapped), conf)
    # The headers of a proxy count before any part creates links.
    return http_proxy_to_wsgi.HTTPProxyToWSGI(wrapped, conf)


def _spare_one_thread() -> int | None:
    """Return the number of threads of this uWSGI process minus one, at least 1.

    None for another WSGI server.
    """
    try:
        import uwsgi
    except ImportError:
        return None
    return max(1, int(uwsgi.opt.get('threads', 1)) - 1)
