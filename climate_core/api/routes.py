# SPDX-License-Identifier: Apache-2.0
"""The whole API as one table. The reference in the documents is made from it too."""

import re
from collections.abc import Mapping

from climate_core.api import etag
from climate_core.api.handlers import (
    history,
    hosts,
    lease_list,
    leases,
    limits,
    openapi,
    plugins,
    reservations,
    root,
    usage,
)
from climate_core.api.route import Route, Table
from climate_core.api.schemas import history as history_schema
from climate_core.api.schemas import host, lease, lease_query, plugin, reservation, version
from climate_core.api.schemas import limits as limits_schema
from climate_core.api.schemas import usage as usage_schema
from climate_core.policies import leases as lease_rules
from climate_core.policies import limits as limits_rules
from climate_core.policies import plugins as plugin_rules
from climate_core.policies import reservations as reservation_rules
from climate_core.policies import usage as usage_rules

ROUTES: Table = {
    '/': {'GET': Route(root.versions, 300, response_schema=version.MANY)},
    '/v1': {'GET': Route(root.version, 200, response_schema=version.ONE)},
    '/v1/leases': {
        'GET': Route(
            lease_list.list_,
            200,
            lease_rules.GET,
            response_schema=lease.MANY,
            query=lease_query.MANY,
        ),
        'POST': Route(
            leases.create,
            201,
            lease_rules.CREATE,
            lease.CREATE,
            lease.ONE,
            query=lease.CREATE_QUERY,
            headers=lease.CREATE_HEADERS,
            also={200: lease.DRY_RUN},
        ),
    },
    '/v1/leases/{lease_id}': {
        'GET': Route(
            leases.show, 200, lease_rules.GET, response_schema=lease.ONE, query=lease_query.ONE
        ),
        'PUT': Route(
            leases.update,
            200,
            lease_rules.UPDATE,
            lease.UPDATE,
            lease.ONE,
            headers=etag.HEADERS,
        ),
        'DELETE': Route(leases.delete, 204, lease_rules.DELETE, headers=etag.HEADERS),
    },
    '/v1/leases/{lease_id}/start': {
        'POST': Route(
            leases.start, 202, lease_rules.START, response_schema=lease.ONE, headers=etag.HEADERS
        ),
    },
    '/v1/leases/{lease_id}/end': {
        'POST': Route(
            leases.end, 202, lease_rules.END, response_schema=lease.ONE, headers=etag.HEADERS
        ),
    },
    '/v1/leases/{lease_id}/history': {
        'GET': Route(
            history.list_,
            200,
            lease_rules.HISTORY,
            response_schema=history_schema.MANY,
            query=history_schema.QUERY,
        ),
    },
    '/v1/leases/{lease_id}/reservations': {
        'POST': Route(
            reservations.create,
            201,
            reservation_rules.CREATE,
            reservation.CREATE,
            reservation.ONE,
            headers=etag.HEADERS,
        ),
    },
    '/v1/leases/{lease_id}/reservations/{reservation_id}': {
        'PUT': Route(
            reservations.update,
            200,
            reservation_rules.UPDATE,
            reservation.CHANGE,
            reservation.ONE,
            headers=etag.HEADERS,
        ),
        'DELETE': Route(reservations.delete, 204, reservation_rules.DELETE, headers=etag.HEADERS),
    },
    '/v1/os-hosts': {'GET': Route(hosts.list_, 200, plugin_rules.GET, response_schema=host.MANY)},
    '/v1/limits': {
        'GET': Route(
            limits.get,
            200,
            limits_rules.GET,
            response_schema=limits_schema.ONE,
            query=limits_schema.QUERY,
        ),
    },
    '/v1/usage': {
        'GET': Route(
            usage.get,
            200,
            usage_rules.GET,
            response_schema=usage_schema.MANY,
            query=usage_schema.QUERY,
        ),
    },
    '/v1/plugins': {
        'GET': Route(plugins.list_, 200, plugin_rules.GET, response_schema=plugin.MANY)
    },
}


#: It describes itself, too.
ROUTES['/v1/openapi.json'] = {
    'GET': Route(openapi.describe(ROUTES), 200, response_schema={'type': 'object'})
}


def _pattern(path: str) -> re.Pattern[str]:
    named = re.sub(r'\{(\w+)\}', r'(?P<\1>[0-9A-Za-z-]+)', path.replace('.', r'\.').rstrip('/'))
    return re.compile(named + r'(\.json|/)?')


_PATTERNS = [(_pattern(path), methods) for path, methods in ROUTES.items()]


def find(path: str) -> tuple[Mapping[str, Route], dict[str, str]] | None:
    """Find a path; ``.json`` or a slash at its end change nothing.

    :returns: what is done for each method, and the variables of the path, which are ids, in small
        letters; None if it is not there
    """
    for pattern, methods in _PATTERNS:
        match = pattern.fullmatch(path)
        if match:
            return methods, {name: text.lower() for name, text in match.groupdict().items()}
    return None


def is_public(path: str) -> bool:
    """Tell whether a path is open to everybody."""
    found = find(path)
    return found is not None and all(route.policy is None for route in found[0].values())
