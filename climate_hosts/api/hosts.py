# SPDX-License-Identifier: Apache-2.0
"""Hosts of the pools, in the format of Blazar's clients. Writes go to the manager."""

import datetime
from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar, Final

import webob
from oslo_serialization import jsonutils
from sqlalchemy import orm

from climate_common import dates, resource_types
from climate_core import exceptions, policies
from climate_core.api import policy, registered_units, validation
from climate_core.api.handlers import usage as lease_usage
from climate_core.api.registered_units import UnitCalls
from climate_core.api.request import (
    Backend,
    Request,
    Route,
    Table,
    answer,
    answer_pages,
    drop_unchanged,
    page_limit,
)
from climate_core.db.registered_units import UnitAllocation, list_allocations
from climate_core.lease import views
from climate_hosts import hosts
from climate_hosts import policies as rules
from climate_hosts.api import schemas as schema
from climate_hosts.db import hosts as db
from climate_hosts.operations.hosts import HostOperations
from climate_hosts.power import db as power_db
from climate_hosts.power import states

#: One entry for all hosts of the cloud, for callers who may not see hosts. Heat's
#: OS::Blazar::Lease is rejected if the list is empty (heat/engine/clients/os/blazar.py:has_host of
#: heat 27.0.1); libcloud and gophercloud read these keys of each host.
SHARED: Final[dict[str, Any]] = {
    'id': 'shared',
    'hypervisor_hostname': 'shared',
    'service_name': 'shared',
    'hypervisor_type': '',
    'hypervisor_version': 0,
    'vcpus': 0,
    'memory_mb': 0,
    'local_gb': 0,
    'cpu_info': '{}',
    'reservable': False,
}
#: Details of a host that are shown unchanged.
_DETAILS: Final = (
    'hypervisor_type',
    'hypervisor_version',
    'vcpus',
    'memory_mb',
    'local_gb',
    'availability_zone',
    'state',
    'status',
    'traits',
    'aggregates',
)


class HostCalls(UnitCalls[hosts.Host]):
    """Show hosts."""

    resource_type = resource_types.HOST
    noun = 'host'
    units = db.HOSTS
    filters: ClassVar = {
        'pool': 'pool',
        'reservable': 'available',
        'hypervisor_hostname': 'hypervisor_hostname',
        'service_name': 'service_name',
    }
    private_rule = policies.GET_PRIVATE_PROPERTIES
    unknown_property = exceptions.UnknownProperty
    fields = (
        'availability_zone',
        'cpu_arch',
        'cpu_model',
        'cpu_vendor',
        'hypervisor_hostname',
        'hypervisor_type',
        'hypervisor_version',
        'id',
        'local_gb',
        'memory_mb',
        'vcpus',
    )

    def view(
        self,
        unit: hosts.Host,
        *,
        sees_all: bool,  # noqa: ARG002
        hidden: Collection[str],
    ) -> dict[str, Any]:
        details = unit.details
        return {
            **{name: value for name, value in unit.extra.items() if name not in hidden},
            'id': str(unit.id),
            'hypervisor_hostname': unit.hypervisor_hostname,
            'service_name': unit.service_name,
            'pool': unit.pool,
            'reservable': unit.available,
            'disabled_reason': unit.reason,
            **{name: details[name] for name in _DETAILS if name in details},
            'cpu_info': jsonutils.dumps(details.get('cpu_info', {})),
            'capacity': dict(unit.capacity),
            'lanes': len(unit.lane_ids),
            'shared': unit.is_shared,
            'power': unit.power_state,
            'kept_on': unit.kept_on,
            'created_at': views.format_stamp(unit.created_at),
            'updated_at': views.format_stamp(unit.updated_at),
        }


CALLS: Final = HostCalls()

_OWN: Final = ('name', 'pool', 'disabled_reason')


def list_(backend: Backend, request: Request) -> webob.Response:
    """List the hosts of the pools, in the order of their ids.

    One entry stands for all hosts of the cloud if the caller may not see them.
    """
    policy.authorize(backend.enforcer, request.context, policies.GET_PLUGINS, {})
    if not policy.allows(backend.enforcer, request.context, rules.GET, {}):
        return answer(200, {'hosts': [SHARED]})
    return CALLS.list_units(backend, request)


def show(backend: Backend, request: Request, host_id: str) -> webob.Response:
    """Show one host."""
    policy.authorize(backend.enforcer, request.context, rules.GET, {})
    return CALLS.show(backend, request, host_id)


def create(backend: Backend, request: Request) -> webob.Response:
    """Add a host to a pool, which keeps ordinary servers off it.

    An interrupted request is finished by the same request again.
    """
    policy.authorize(backend.enforcer, request.context, rules.CREATE, {})
    values = _normal(request.read_body(schema.CREATE))
    for name in ('shared', 'empty'):
        values[name] = registered_units.parse_flag(values['extra'].pop(name, False))
    host_id = backend.manager_client.call(HostOperations.create_host, request.context, values)
    return CALLS.answer_changed(backend, request, 201, [host_id])


def update(backend: Backend, request: Request, host_id: str) -> webob.Response:
    """Change a host, and read its description from Nova and Placement again."""
    policy.authorize(backend.enforcer, request.context, rules.UPDATE, {})
    unit_id = CALLS.parse_id(host_id)
    shown = CALLS.view(backend.database.read(db.HOSTS.get, unit_id), sees_all=True, hidden=())
    values = _normal(request.read_body(schema.UPDATE, lambda sent: _drop_shown(sent, shown)))
    if 'kept_on' in values['extra']:
        values['kept_on'] = registered_units.parse_flag(values['extra'].pop('kept_on'))
    backend.manager_client.call(HostOperations.update_host, request.context, unit_id, values)
    return CALLS.answer_changed(backend, request, 200, [unit_id])


def _drop_shown(sent: Mapping[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return a change without what clients send back as they read it."""
    kept = shown.keys() - hosts.OWN_FIELDS | schema.UPDATE['properties'].keys()
    change = drop_unchanged(sent, shown, kept)
    if isinstance(change.get('values'), dict):
        change['values'] = drop_unchanged(change['values'], shown, kept)
    return change


def delete(backend: Backend, request: Request, host_id: str) -> webob.Response:
    """Remove a host from its pool, which lets ordinary servers onto it again."""
    policy.authorize(backend.enforcer, request.context, rules.DELETE, {})
    backend.manager_client.call(
        HostOperations.delete_host, request.context, CALLS.parse_id(host_id)
    )
    return answer(204)


def allocations(backend: Backend, request: Request) -> webob.Response:
    """List the reservations to which hosts are allocated, also hosts without reservations."""
    policy.authorize(backend.enforcer, request.context, policies.GET_ALLOCATIONS, {})
    asked, limit = request.parameters, page_limit(backend, request)
    ids = [text and text.lower() for text in map(asked.get, ('lease_id', 'reservation_id'))]

    def read_page(
        session: orm.Session, marker: int | None
    ) -> tuple[list[dict[str, Any]], int | None]:
        found, more = db.HOSTS.page(session, {}, marker or 0, limit)
        allocations = list_allocations(session, [host.id for host in found], *ids)
        shown = [allocation_view(host, allocations) for host in found]
        return shown, found[-1].id if more else None

    return answer_pages(
        request, 'allocations', lambda marker: backend.database.read(read_page, marker)
    )


def allocation(backend: Backend, request: Request, host_id: str) -> webob.Response:
    """Show the reservations to which one host is allocated."""
    policy.authorize(backend.enforcer, request.context, policies.GET_ALLOCATIONS, {})
    number = CALLS.parse_id(host_id)

    def read(session: orm.Session) -> dict[str, Any]:
        host = db.HOSTS.get(session, number)
        return allocation_view(host, list_allocations(session, [number]))

    return answer(200, {'allocation': backend.database.read(read)})


def properties(backend: Backend, request: Request) -> webob.Response:
    """List the extra properties that hosts have.

    Callers who may not see private ones are shown those of hosts that they can reserve.
    """
    context = request.context
    target = {'project_id': context.project_id, 'user_id': context.user_id}
    policy.authorize(backend.enforcer, context, rules.GET_PROPERTIES, target)
    return CALLS.list_properties(backend, request)


def update_property(backend: Backend, request: Request, property_name: str) -> webob.Response:
    """Make an extra property private, or public again."""
    policy.authorize(backend.enforcer, request.context, rules.UPDATE_PROPERTIES, {})
    operation = HostOperations.set_host_property
    return CALLS.update_property(backend, request, property_name, operation)


def pools(backend: Backend, request: Request) -> webob.Response:
    """List the pools of hosts, and which projects may use them."""
    policy.authorize(backend.enforcer, request.context, rules.GET_POOLS, {})
    return answer(200, {'pools': [pool_view(p) for p in backend.database.read(db.list_pools)]})


def show_pool(backend: Backend, request: Request, pool_name: str) -> webob.Response:
    """Show one pool of hosts, and which projects may use it."""
    policy.authorize(backend.enforcer, request.context, rules.GET_POOLS, {})
    return answer(200, {'pool': pool_view(backend.database.read(db.get_pool, pool_name))})


def update_pool(backend: Backend, request: Request, pool_name: str) -> webob.Response:
    """Set which projects may use a pool, which may have no hosts yet; empty lists: all may.

    The allocations of its hosts stay.
    """
    policy.authorize(backend.enforcer, request.context, rules.UPDATE_POOLS, {})
    values = request.read_body(schema.UPDATE_POOL)
    _check_pool(pool_name)
    backend.manager_client.call(HostOperations.set_host_pool, request.context, pool_name, values)
    return answer(200, {'pool': pool_view(backend.database.read(db.get_pool, pool_name))})


def delete_pool(backend: Backend, request: Request, pool_name: str) -> webob.Response:
    """Delete a pool that has no hosts, with the list of the projects that may use it."""
    policy.authorize(backend.enforcer, request.context, rules.DELETE_POOLS, {})
    backend.manager_client.call(HostOperations.delete_host_pool, request.context, pool_name)
    return answer(204)


def show_usage(backend: Backend, request: Request) -> webob.Response:
    """Show for how many hours of a period each host was powered off, and the energy that saved.

    Hosts that were removed from their pools are shown, too. The energy is known where the operator
    has set ``[power] watts``.
    """
    policy.authorize(backend.enforcer, request.context, rules.GET_USAGE, {})
    watts = backend.conf.power.watts
    with backend.database.reader() as session:
        period = lease_usage.requested_period(session, request.parameters)
        found = power_db.read_sleep_hours(session, period)
    shown = [
        {
            'hypervisor_hostname': name,
            'start': dates.serialize(period.begin),
            'end': dates.serialize(period.end),
            'asleep_hours': round(hours, 6),
            'saved_kwh': states.saved_kwh(hours, watts),
        }
        for name, hours in found.items()
    ]
    return answer(200, {'usage': shown})


def _check_pool(name: str) -> None:
    """Reject a name that no pool can have."""
    validation.check(name, schema.POOL_NAME, 'pool_name')


def _normal(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a request by the names of the operations on hosts.

    :param body: flat, or with the same under ``values``, as some clients send changes
    """
    given = registered_units.flatten_values(body)
    normal: dict[str, Any] = {name: given.pop(name) for name in _OWN if name in given}
    flags = {
        name: registered_units.parse_flag(given.pop(name))
        for name in ('reservable', 'disabled')
        if name in given
    }
    if len(flags) == 2 and flags['reservable'] == flags['disabled']:
        raise exceptions.BadRequest(
            'disabled: must be the opposite of reservable; send one of them.', field='disabled'
        )
    if flags:
        normal['available'] = flags.get('reservable', not flags.get('disabled'))
    return {**normal, 'extra': given}


def pool_view(row: hosts.Pool) -> dict[str, Any]:
    """Return a pool of hosts as the API shows it, with the projects that may use it."""
    return {
        'name': row.name,
        'hosts': row.hosts,
        'generation': row.generation,
        'project_ids': list(row.project_ids),
        'domain_ids': list(row.domain_ids),
    }


def allocation_view(host: hosts.Host, allocations: Iterable[UnitAllocation]) -> dict[str, Any]:
    """Return the reservations to which a host is allocated, as the API shows them."""
    return {
        'resource_id': str(host.id),
        'hypervisor_hostname': host.hypervisor_hostname,
        'reservations': [
            {
                'id': each.reservation_id,
                'lease_id': each.lease_id,
                'lease_name': each.lease_name,
                'start_date': dates.serialize(each.start_date),
                'end_date': dates.serialize(each.end_date),
            }
            for each in allocations
            if each.unit_id == host.id
        ],
    }


def read_timeline(
    session: orm.Session,
    since: datetime.datetime,
    until: datetime.datetime,
    marker: int,
    limit: int,
) -> tuple[list[dict[str, Any]], bool]:
    """Read a page of hosts with their allocations, for the calendar."""
    rows, more = db.read_timeline(session, since, until, marker, limit)
    return [_view_row(row) for row in rows], more


def _view_row(host: db.HostRow) -> dict[str, Any]:
    return {
        'id': str(host.id),
        'hypervisor_hostname': host.hypervisor_hostname,
        'pool': host.pool,
        'reservable': host.available,
        'bars': [
            {
                'lease_id': bar.lease_id,
                'lease_name': bar.name,
                'project_id': bar.project_id,
                'status': bar.status,
                'reservation_id': bar.reservation_id,
                'start_date': dates.serialize(bar.start),
                'end_date': dates.serialize(bar.end),
            }
            for bar in host.bars
        ],
    }


ROUTES: Final[Table] = {
    '/v1/os-hosts': {
        'GET': Route(
            list_,
            200,
            policies.GET_PLUGINS,
            response_schema=schema.MANY,
            query=schema.QUERY,
            ignores_unknown=True,
        ),
        'POST': Route(create, 201, rules.CREATE, schema.CREATE, schema.ONE),
    },
    '/v1/os-hosts/allocations': {
        'GET': Route(
            allocations,
            200,
            policies.GET_ALLOCATIONS,
            response_schema=schema.ALLOCATIONS,
            query=schema.ALLOCATIONS_QUERY,
            ignores_unknown=True,
        ),
    },
    '/v1/os-hosts/usage': {
        'GET': Route(
            show_usage,
            200,
            rules.GET_USAGE,
            response_schema=schema.USAGE,
            query=schema.USAGE_QUERY,
            operation='host_usage.get',
        ),
    },
    '/v1/os-hosts/properties': {
        'GET': Route(
            properties,
            200,
            rules.GET_PROPERTIES,
            response_schema=schema.PROPERTIES,
            query=schema.PROPERTIES_QUERY,
            ignores_unknown=True,
        ),
    },
    '/v1/os-hosts/properties/{property_name}': {
        'PATCH': Route(
            update_property,
            200,
            rules.UPDATE_PROPERTIES,
            registered_units.UPDATE_PROPERTY,
            schema.PROPERTY,
        ),
    },
    '/v1/os-hosts/pools': {
        'GET': Route(pools, 200, rules.GET_POOLS, response_schema=schema.POOLS),
    },
    '/v1/os-hosts/pools/{pool_name}': {
        'GET': Route(show_pool, 200, rules.GET_POOLS, response_schema=schema.POOL),
        'PUT': Route(
            update_pool,
            200,
            rules.UPDATE_POOLS,
            schema.UPDATE_POOL,
            schema.POOL,
        ),
        'DELETE': Route(delete_pool, 204, rules.DELETE_POOLS),
    },
    '/v1/os-hosts/{host_id}': {
        'GET': Route(show, 200, rules.GET, response_schema=schema.ONE, ignores_unknown=True),
        'PUT': Route(update, 200, rules.UPDATE, schema.UPDATE, schema.ONE),
        'DELETE': Route(delete, 204, rules.DELETE),
    },
    '/v1/os-hosts/{host_id}/allocation': {
        'GET': Route(
            allocation,
            200,
            policies.GET_ALLOCATIONS,
            response_schema=schema.ONE_ALLOCATION,
            ignores_unknown=True,
        ),
    },
}
