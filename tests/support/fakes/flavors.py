# SPDX-License-Identifier: Apache-2.0
"""The part of the Compute API about flavors. Everybody may see all of them."""

from typing import Any

from tests.support.fakes.state import Record, Refusal, State


def add(state: State, **fields: Any) -> Record:
    """Put a flavor into the cloud, for everybody unless the fields say otherwise."""
    flavor: Record = {
        'name': fields['id'],
        'vcpus': 1,
        'ram': 512,
        'disk': 1,
        'OS-FLV-EXT-DATA:ephemeral': 0,
        'swap': 0,
        'os-flavor-access:is_public': True,
        'extra_specs': {},
        'access': [],
        **fields,
    }
    state.put('flavors', flavor, {'what': 'flavor create', 'id': flavor['id']})
    return flavor


def _find(request: Any, flavor_id: str) -> Record:
    found: Record | None = request.server.state.flavors.get(flavor_id)
    if found is None:
        raise Refusal(404, f'Flavor {flavor_id} could not be found.')
    return found


def _shown(flavor: Record) -> Record:
    return {name: value for name, value in flavor.items() if name != 'access'}


def _list(request: Any) -> Record:
    return {'flavors': [_shown(each) for each in request.server.state.flavors.values()]}


def _create(request: Any) -> Record:
    wanted = request.body['flavor']
    if wanted['id'] in request.server.state.flavors:
        raise Refusal(409, f'Flavor with ID {wanted["id"]} already exists.')
    return {'flavor': _shown(add(request.server.state, **wanted))}


def _delete(request: Any, flavor_id: str) -> None:
    _find(request, flavor_id)
    request.server.state.drop('flavors', flavor_id, {'what': 'flavor delete', 'id': flavor_id})


def _specify(request: Any, flavor_id: str) -> Record:
    specs: Record = _find(request, flavor_id)['extra_specs']
    specs.update(request.body['extra_specs'])
    return {'extra_specs': specs}


def _access(request: Any, flavor_id: str) -> Record:
    found = _find(request, flavor_id)['access']
    return {'flavor_access': [{'flavor_id': flavor_id, 'tenant_id': each} for each in found]}


def _give(request: Any, flavor_id: str) -> Record:
    project_id = request.body['addTenantAccess']['tenant']
    access = _find(request, flavor_id)['access']
    if project_id in access:
        raise Refusal(409, f'Flavor access already exists for {flavor_id} and {project_id}.')
    access.append(project_id)
    return _access(request, flavor_id)


_FLAVORS = r'/compute/v2\.1/flavors'
_FLAVOR = f'{_FLAVORS}/([^/]+)'
ROUTES = (
    ('GET', f'{_FLAVORS}/detail', _list),
    ('POST', _FLAVORS, _create),
    ('GET', _FLAVOR, lambda r, key: {'flavor': _shown(_find(r, key))}),
    ('DELETE', _FLAVOR, _delete),
    ('POST', f'{_FLAVOR}/os-extra_specs', _specify),
    ('GET', f'{_FLAVOR}/os-flavor-access', _access),
    ('POST', f'{_FLAVOR}/action', _give),
)
