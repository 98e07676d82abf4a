# SPDX-License-Identifier: Apache-2.0
"""Dispatch requests: find the route of a path and call its handler."""

from collections.abc import Callable, Iterable
from typing import Any

from climate_core import exceptions
from climate_core.api import errors, known_properties, microversion, query, routes
from climate_core.api.request import PARAMETERS, Backend, Request
from climate_core.api.route import Route, find_route


class Application:
    """A WSGI application that raises what goes wrong, see :class:`errors.Faults`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable:
        request = Request(environ)
        route, variables = _route(request)
        if route.policy is not None:
            microversion.check(request)
            # Public paths accept any query string, since clients and probes add their own.
            request.environ[PARAMETERS] = query.read(request, route.query)
            if request.method == 'POST' and route.request_schema is None:
                request.read_nothing()
        try:
            response = route.handler(self._backend, request, **variables)
        except exceptions.UnknownProperty as error:
            raise known_properties.told(self._backend, request.context, error) from error
        if route.policy is not None:
            microversion.mark(response)
        return response(environ, start_response)


def _route(request: Request) -> tuple[Route, dict[str, str]]:
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
