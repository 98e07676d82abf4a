# SPDX-License-Identifier: Apache-2.0
"""The route table: every call of the API. The reference in the documents comes from it."""

import webob

from climate_core import packages, policies
from climate_core.api import reservations
from climate_core.api.handlers import calendar, feeds, leases, service, usage
from climate_core.api.request import (
    IF_MATCH_HEADERS,
    IF_NONE_MATCH_HEADERS,
    Backend,
    Request,
    Route,
    Table,
    answer,
)
from climate_core.api.schemas import calendar as calendar_schemas
from climate_core.api.schemas import common
from climate_core.api.schemas import leases as lease_schemas


def show_openapi(backend: Backend, request: Request) -> webob.Response:
    """Return the OpenAPI document of this installation."""
    document = service.document(ROUTES, request.application_url, backend.plugins)
    return answer(200, document)


ROUTES: Table = {
    '/': {
        'GET': Route(
            service.versions, 300, response_schema=common.ALL_VERSIONS, operation='root.versions'
        )
    },
    '/v1': {
        'GET': Route(
            service.version, 200, response_schema=common.ONE_VERSION, operation='root.version'
        )
    },
    '/v1/leases': {
        'GET': Route(
            leases.list_,
            200,
            policies.GET_LEASES,
            response_schema=lease_schemas.MANY,
            query=lease_schemas.LIST_QUERY,
            ignores_unknown=True,
            operation='lease_list.list',
        ),
        'POST': Route(
            leases.create,
            201,
            policies.CREATE_LEASE,
            lease_schemas.CREATE,
            lease_schemas.ONE,
            query=lease_schemas.CREATE_QUERY,
            headers=lease_schemas.CREATE_HEADERS,
            also={200: lease_schemas.DRY_RUN},
        ),
    },
    '/v1/leases/{lease_id}': {
        'GET': Route(
            leases.show,
            200,
            policies.GET_LEASES,
            response_schema=lease_schemas.ONE,
            query=lease_schemas.SHOW_QUERY,
            ignores_unknown=True,
        ),
        'PUT': Route(
            leases.update,
            200,
            policies.UPDATE_LEASE,
            lease_schemas.UPDATE,
            lease_schemas.ONE,
            headers=IF_MATCH_HEADERS,
        ),
        'DELETE': Route(leases.delete, 204, policies.DELETE_LEASE, headers=IF_MATCH_HEADERS),
    },
    '/v1/leases/{lease_id}/start': {
        'POST': Route(
            leases.start,
            202,
            policies.START_LEASE,
            response_schema=lease_schemas.ONE,
            headers=IF_MATCH_HEADERS,
        ),
    },
    '/v1/leases/{lease_id}/end': {
        'POST': Route(
            leases.end,
            202,
            policies.END_LEASE,
            response_schema=lease_schemas.ONE,
            headers=IF_MATCH_HEADERS,
        ),
    },
    '/v1/leases/{lease_id}/history': {
        'GET': Route(
            leases.list_history,
            200,
            policies.GET_LEASE_HISTORY,
            response_schema=lease_schemas.HISTORY,
            query=lease_schemas.HISTORY_QUERY,
            operation='history.list',
        ),
    },
    '/v1/leases/{lease_id}/reservations': {
        'POST': Route(
            reservations.create,
            201,
            policies.CREATE_RESERVATION,
            reservations.CREATE,
            reservations.ONE,
            headers=IF_MATCH_HEADERS,
        ),
    },
    '/v1/leases/{lease_id}/reservations/{reservation_id}': {
        'PUT': Route(
            reservations.update,
            200,
            policies.UPDATE_RESERVATION,
            reservations.CHANGE,
            reservations.ONE,
            headers=IF_MATCH_HEADERS,
        ),
        'DELETE': Route(
            reservations.delete, 204, policies.DELETE_RESERVATION, headers=IF_MATCH_HEADERS
        ),
    },
    '/v1/availability': {
        'GET': Route(
            calendar.get_availability,
            200,
            policies.GET_AVAILABILITY,
            response_schema=calendar_schemas.WINDOWS,
            query=calendar_schemas.AVAILABILITY_QUERY,
            operation='availability.get',
        ),
    },
    '/v1/calendar': {
        'GET': Route(
            calendar.get,
            200,
            policies.GET_CALENDAR,
            response_schema=calendar_schemas.SHOWN,
            query=calendar_schemas.QUERY,
            headers=IF_NONE_MATCH_HEADERS,
            also={304: None},
        ),
    },
    '/v1/feeds': {
        'GET': Route(feeds.list_, 200, policies.GET_FEEDS, response_schema=calendar_schemas.FEEDS),
        'POST': Route(
            feeds.create,
            201,
            policies.CREATE_FEED,
            calendar_schemas.CREATE_FEED,
            calendar_schemas.FEED_CREATED,
        ),
    },
    '/v1/feeds/{feed_id}': {'DELETE': Route(feeds.delete, 204, policies.DELETE_FEED)},
    feeds.PATH: {
        'GET': Route(
            feeds.read,
            200,
            response_schema={'type': 'string'},
            query=calendar_schemas.FEED_QUERY,
            headers=IF_NONE_MATCH_HEADERS,
            also={304: None},
            media='text/calendar',
            errors=(403, 404, 503),
        ),
    },
    '/v1/limits': {
        'GET': Route(
            usage.get_limits,
            200,
            policies.GET_LIMITS,
            response_schema=usage.LIMITS,
            query=usage.LIMITS_QUERY,
            operation='limits.get',
        ),
    },
    '/v1/usage': {
        'GET': Route(
            usage.get,
            200,
            policies.GET_USAGE,
            response_schema=usage.MANY,
            query=usage.QUERY,
        ),
    },
    '/v1/plugins': {
        'GET': Route(
            reservations.list_plugins,
            200,
            policies.GET_PLUGINS,
            response_schema=reservations.PLUGINS,
            operation='plugins.list',
        )
    },
}
for _package in packages.list_packages():
    ROUTES.update(_package.list_routes())
ROUTES['/v1/openapi.json'] = {
    'GET': Route(show_openapi, 200, response_schema={'type': 'object'}, operation='openapi.show')
}
