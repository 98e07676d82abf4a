# SPDX-License-Identifier: Apache-2.0
"""Hosts of the pools, in the words of Blazar's clients. Writes go to the manager."""

from collections.abc import Mapping
from typing import Any, Final

import webob
from sqlalchemy import orm

from climate_common import dates, resource_types
from climate_core import exceptions, policies
from climate_core.api import policy, registered_units, validation
from climate_core.api.handlers import usage as lease_usage
from climate_core.api.request import Backend, Request, answer, next_links, page_body, page_limit
from climate_hosts import policies as rules
from climate_hosts.api import host_schemas as schema
from climate_hosts.api import views
from climate_hosts.db import host_power
from climate_hosts.db import hosts as db
from climate_hosts.domain import power
from climate_hosts.operations.hosts import HostOperations

#: One entry for all hosts of the cloud, for callers who may not see hosts or where no pool has
#: any: nova-scheduler takes one of them when a server is reserved. Heat's OS::Blazar::Lease takes
#: no lease where the list of hosts is empty (heat/engine/clients/os/blazar.py:has_host of heat
#: 27.0.1).
SHARED: Final[dict[str, Any]] = {
    'id': 'shared',
    'hypervisor_hostname': 'shared',
    'service_name': 'shared',
    'reservable': False,
}
PROPERTIES: Final = registered_units.PropertyCalls(
    db.EXTRA_PROPERTIES,
    resource_types.HOST,
    policies.GET_PRIVATE_PROPERTIES,
    exceptions.UnknownProperty,
    (
        'availability_zone',
        'cpu_arch',
        'cpu_model',
        'cpu_vendor',
        'hypervisor_hostname',
        'hypervisor_type',
        'hypervisor_version',
        'local_gb',
        'memory_mb',
        'vcpus',
    ),
)
_OWN: Final = ('name', 'pool', 'disabled_reason')


def list_(backend: Backend, request: Request) -> webob.Response:
    """List the hosts of the pools, in the order of their ids.

    One entry stands for all hosts of the cloud if the caller may not see them, or no pool has any.
    """
    policy.authorize(backend.enforcer, request.context, policies.GET_PLUGINS, {})
    if not policy.allows(backend.enforcer, request.context, rules.GET, {}):
        return answer(200, {'hosts': [SHARED]})
    asked = request.parameters
    query = db.HostQuery(
        pool=asked.get('pool'),
        available=asked.get('reservable'),
        hypervisor_hostname=asked.get('hypervisor_hostname'),
        service_name=asked.get('service_name'),
        marker=asked.get('marker', 0),
        limit=page_limit(backend, request),
    )
    found, more = backend.database.read(db.list_page, query)
    if not found and not backend.database.read(db.exist):
        return answer(200, {'hosts': [SHARED]})
    hidden = PROPERTIES.list_hidden(backend, request.context)
    links = next_links(request, str(found[-1].id)) if more else None
    return answer(200, page_body('hosts', [views.host(h, hidden) for h in found], links))


def show(backend: Backend, request: Request, host_id: str) -> webob.Response:
    """Show one host."""
    policy.authorize(backend.enforcer, request.context, rules.GET, {})
    return _answer(backend, request, 200, _number(host_id))


def create(backend: Backend, request: Request) -> webob.Response:
    """Add a host to a pool, which keeps ordinary servers off it.

    A request that was cut off is finished by the same one again.
    """
    policy.authorize(backend.enforcer, request.context, rules.CREATE, {})
    values = _normal(request.read_body(schema.CREATE))
    for name in ('shared', 'empty'):
        values[name] = registered_units.parse_flag(values['extra'].pop(name, False))
    host_id = backend.manager.call(HostOperations.create_host, request.context, values)
    return _answer(backend, request, 201, host_id)


def update(backend: Backend, request: Request, host_id: str) -> webob.Response:
    """Change a host, and read again what Nova and Placement say of it."""
    policy.authorize(backend.enforcer, request.context, rules.UPDATE, {})
    values = _normal(request.read_body(schema.UPDATE))
    if 'kept_on' in values['extra']:
        values['kept_on'] = registered_units.parse_flag(values['extra'].pop('kept_on'))
    backend.manager.call(HostOperations.update_host, request.context, _number(host_id), values)
    return _answer(backend, request, 200, _number(host_id))


def delete(backend: Backend, request: Request, host_id: str) -> webob.Response:
    """Remove a host from its pool, which lets ordinary servers onto it again."""
    policy.authorize(backend.enforcer, request.context, rules.DELETE, {})
    backend.manager.call(HostOperations.delete_host, request.context, _number(host_id))
    return answer(204)


def allocations(backend: Backend, request: Request) -> webob.Response:
    """List which reservations hosts are promised to, also hosts that are promised to none."""
    policy.authorize(backend.enforcer, request.context, policies.GET_ALLOCATIONS, {})
    asked = request.parameters
    query = db.HostQuery(marker=asked.get('marker', 0), limit=page_limit(backend, request))

    def read(session: orm.Session) -> tuple[list[dict[str, Any]], bool]:
        found, more = db.list_page(session, query)
        ids = [each.id for each in found]
        filters = (asked.get('lease_id'), asked.get('reservation_id'))
        promised = db.list_allocations(session, ids, *(each and each.lower() for each in filters))
        return [views.allocation(each, promised) for each in found], more

    found, more = backend.database.read(read)
    links = next_links(request, found[-1]['resource_id']) if more else None
    return answer(200, page_body('allocations', found, links))


def allocation(backend: Backend, request: Request, host_id: str) -> webob.Response:
    """Show which reservations one host is promised to."""
    policy.authorize(backend.enforcer, request.context, policies.GET_ALLOCATIONS, {})
    number = _number(host_id)

    def read(session: orm.Session) -> dict[str, Any]:
        return views.allocation(db.get(session, number), db.list_allocations(session, [number]))

    return answer(200, {'allocation': backend.database.read(read)})


def properties(backend: Backend, request: Request) -> webob.Response:
    """List the extra properties that hosts have.

    Callers who may not see private ones are shown those of hosts that they can reserve.
    """
    context = request.context
    target = {'project_id': context.project_id, 'user_id': context.user_id}
    policy.authorize(backend.enforcer, context, rules.GET_PROPERTIES, target)
    return PROPERTIES.list_(backend, request)


def update_property(backend: Backend, request: Request, property_name: str) -> webob.Response:
    """Make an extra property private, or public again."""
    policy.authorize(backend.enforcer, request.context, rules.UPDATE_PROPERTIES, {})
    return PROPERTIES.update(backend, request, property_name, HostOperations.set_host_property)


def pools(backend: Backend, request: Request) -> webob.Response:
    """List the pools of hosts, and who may use them."""
    policy.authorize(backend.enforcer, request.context, rules.GET_POOLS, {})
    return answer(200, {'pools': [views.pool(p) for p in backend.database.read(db.list_pools)]})


def show_pool(backend: Backend, request: Request, pool_name: str) -> webob.Response:
    """Show one pool of hosts, and which projects may use it."""
    policy.authorize(backend.enforcer, request.context, rules.GET_POOLS, {})
    return answer(200, {'pool': views.pool(backend.database.read(db.get_pool, pool_name))})


def update_pool(backend: Backend, request: Request, pool_name: str) -> webob.Response:
    """Set which projects may use a pool, which may have no hosts yet; none named: all may.

    What is promised of its hosts already stays.
    """
    policy.authorize(backend.enforcer, request.context, rules.UPDATE_POOLS, {})
    values = request.read_body(schema.UPDATE_POOL)
    _check_pool(pool_name)
    backend.manager.call(HostOperations.set_host_pool, request.context, pool_name, values)
    return answer(200, {'pool': views.pool(backend.database.read(db.get_pool, pool_name))})


def delete_pool(backend: Backend, request: Request, pool_name: str) -> webob.Response:
    """Delete a pool that has no hosts: nothing is known of who may use it any more."""
    policy.authorize(backend.enforcer, request.context, rules.DELETE_POOLS, {})
    backend.manager.call(HostOperations.delete_host_pool, request.context, pool_name)
    return answer(204)


def show_usage(backend: Backend, request: Request) -> webob.Response:
    """Show for how many hours of a period each host slept, and the energy that saved.

    Hosts that are in no pool any more are shown, too. The energy is known where the operator has
    set ``[power] watts``.
    """
    policy.authorize(backend.enforcer, request.context, rules.GET_USAGE, {})
    watts = backend.conf.power.watts
    with backend.database.reader() as session:
        period = lease_usage.requested_period(session, request.parameters)
        found = host_power.read_sleep_hours(session, period)
    shown = [
        {
            'hypervisor_hostname': name,
            'start': dates.serialize(period.begin),
            'end': dates.serialize(period.end),
            'asleep_hours': round(hours, 6),
            'saved_kwh': power.saved_kwh(hours, watts),
        }
        for name, hours in found.items()
    ]
    return answer(200, {'usage': shown})


def _check_pool(name: str) -> None:
    """Refuse a name that no pool can have."""
    validation.check(name, schema.POOL_NAME, 'pool_name')


def _number(host_id: str) -> int:
    """Return an id as a number.

    :raises climate_core.exceptions.HostNotFound: no host can have this id
    """
    return registered_units.require_unit_id(host_id, _not_found)


def _not_found(host_id: str) -> exceptions.HostNotFound:
    return exceptions.HostNotFound(f'Host {host_id} was not found.')


def _answer(backend: Backend, request: Request, status: int, host_id: int) -> webob.Response:
    host = backend.database.read(db.get, host_id)
    hidden = PROPERTIES.list_hidden(backend, request.context)
    return answer(status, {'host': views.host(host, hidden)})


def _normal(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a request in the words of the operations on hosts.

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
