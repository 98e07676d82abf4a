# SPDX-License-Identifier: Apache-2.0
"""The part of the Compute API that Climate uses, with servers that change when looked at.

An action sets the task state and puts the steps to come into ``next``; every look at the server
takes one of them, so that nothing depends on the time. One that ``is_fast`` has a single step.
"""

import re
import uuid
from collections.abc import Mapping
from typing import Any

from tests.support.fakes import cinder, placement
from tests.support.fakes.state import Record, Refusal, State, owns

#: The only server group.
SERVER_GROUP = 'a3f7c0d2-5b18-4e69-9f04-7c1e2d8b6a55'

#: action -> (statuses it is allowed in, task state meanwhile, statuses that follow)
ACTIONS: Mapping[str, tuple[frozenset[str], str, tuple[str, ...]]] = {
    'wake_up': (frozenset({'RESERVED'}), 'scheduling', ('BUILD', 'ACTIVE')),
    'os-stop': (frozenset({'ACTIVE', 'ERROR'}), 'powering-off', ('SHUTOFF',)),
    'suspend': (frozenset({'ACTIVE'}), 'suspending', ('SUSPENDED',)),
    'unpause': (frozenset({'PAUSED'}), 'unpausing', ('ACTIVE',)),
    'unrescue': (frozenset({'RESCUE'}), 'unrescuing', ('ACTIVE',)),
    'confirmResize': (frozenset({'VERIFY_RESIZE'}), '', ('ACTIVE',)),
    'shelveOffload': (frozenset({'SHELVED'}), 'shelving_offloading', ('SHELVED_OFFLOADED',)),
    'shelve': (
        frozenset({'ACTIVE', 'SHUTOFF', 'PAUSED', 'SUSPENDED'}),
        'shelving',
        ('SHELVED_OFFLOADED',),
    ),
    'unshelve': (frozenset({'SHELVED', 'SHELVED_OFFLOADED'}), 'unshelving', ('ACTIVE',)),
}
_MADE = '2026-01-01T12:00:00Z'
_IMAGED = frozenset({'ACTIVE', 'SHUTOFF', 'PAUSED', 'SUSPENDED'})


def _version(request: Any) -> Record:
    link = [{'rel': 'self', 'href': f'{request.base}/compute/v2.1/'}]
    span = {'min_version': '2.1', 'version': '2.100'}
    return {'id': 'v2.1', 'status': 'CURRENT', 'links': link, **span}


def add(state: State, **fields: Any) -> Record:
    """Put a server into the cloud, RESERVED unless the fields say otherwise."""
    server: Record = {
        'id': str(uuid.uuid4()),
        'name': 'vm1',
        'project_id': 'demo-id',
        'status': 'RESERVED',
        'task_state': None,
        'locked': False,
        'hints': {'reserved': ['True']},
        'fault': None,
        'next': [],
        'wake_failures': 0,
        'volumes': [],
        'host_id': 'host1',
        'launched_at': None,
        'created': _MADE,
        'updated': _MADE,
        **fields,
    }
    state.put('servers', server, {'what': 'server create', 'id': server['id']})
    return server


def _create(request: Any) -> Any:
    """Make a server; of the flavor ``none`` one that finds no host."""
    state, caller, wanted = request.server.state, request.caller(), request.body['server']
    if wanted['flavorRef'] not in state.flavors:
        raise Refusal(400, f'Flavor {wanted["flavorRef"]} could not be found.')
    hints = request.body.get('os:scheduler_hints', {})
    made = add(
        state,
        name=wanted['name'],
        project_id=caller['project_id'],
        hints=hints,
        tags=wanted.get('tags', []),
        asked=wanted,
        status='BUILD',
        host_id='',
        next=['RESERVED' if 'lease_id' in hints else 'ACTIVE'],
    )
    if wanted['flavorRef'] == 'none':
        made.update(next=['ERROR'], fault={'code': 500, 'message': 'No valid host was found.'})
    return 202, {}, {'server': {'id': made['id']}}


def _find(request: Any, server_id: str) -> tuple[State, Record, Record]:
    """Return the state, who asks, and the server that is asked for."""
    state, caller = request.server.state, request.caller()
    server = state.servers.get(server_id)
    if not server or not owns(caller, server):
        raise Refusal(404, f'Instance {server_id} could not be found.')
    return state, caller, server


def _show(request: Any, server_id: str) -> Record:
    """Let one step happen, then show."""
    state, _, server = _find(request, server_id)
    if server['next']:
        _step(state, server)
    if server_id not in state.servers:
        raise Refusal(404, f'Instance {server_id} could not be found.')
    shown = _shown(server)
    if server['fault'] and server['status'] in ('ERROR', 'DELETED', 'RESERVED'):
        shown['fault'] = server['fault']
    if request.headers.get('OpenStack-API-Version') == 'compute 2.100':
        shown['scheduler_hints'] = server['hints']
    return {'server': shown}


def _shown(server: Record) -> Record:
    return {
        'id': server['id'],
        'name': server['name'],
        'tenant_id': server['project_id'],
        'status': server['status'],
        'image': {'id': 'cirros'},
        'flavor': {'vcpus': 1, 'ram': 512, 'disk': 1, 'ephemeral': 0},
        'os-extended-volumes:volumes_attached': [{'id': each} for each in server['volumes']],
        'OS-EXT-STS:task_state': server['task_state'],
        'OS-EXT-STS:vm_state': server['status'].lower(),
        'locked': bool(server['locked']),
        'locked_reason': server.get('locked_reason'),
        'hostId': server['host_id'],
        'created': server['created'],
        'updated': server['updated'],
        'OS-SRV-USG:launched_at': server['launched_at'],
    }


def _step(state: State, server: Record) -> None:
    status, task = server['next'][0], None
    if status == 'GONE':
        cinder.leave_all(state, server['id'])
        placement.remove_server(state, server['id'])
        state.drop('servers', server['id'], {'what': 'server gone', 'id': server['id']})
        return
    if status == 'BUILD':
        task = 'spawning'
    changed = {**server, 'status': status, 'task_state': task, 'next': server['next'][1:]}
    changed['host_id'] = server['host_id'] or 'host1'
    if status == 'SHELVED_OFFLOADED':
        placement.remove_server(state, server['id'])
    if status == 'ACTIVE':
        changed['launched_at'] = server['launched_at'] or '2082-12-01T12:00:00.000000'
    for image in state.images.values():
        if image['server_id'] == server['id'] and image['status'] == 'queued':
            done = {**image, 'status': 'active'}
            state.put('images', done, {'what': 'image complete', 'id': image['id']})
    server.update(changed)
    entry = {'what': 'server is', 'id': server['id'], 'status': status}
    state.put('servers', server, entry)


def _list(request: Any) -> Record:
    """List by pages, in the order of ids."""
    state, caller, query = request.server.state, request.caller(), request.query
    statuses = {query['status']} if 'status' in query else None
    everywhere = 'all_tenants' in query
    if everywhere and 'admin' not in caller['roles']:
        raise Refusal(403, "Policy doesn't allow index:get_all_tenants to be performed.")
    found = sorted(
        server['id']
        for server in state.servers.values()
        if (everywhere or server['project_id'] == caller['project_id'])
        and (not statuses or server['status'] in statuses)
        and query.get('tags') in (None, *server.get('tags', ()))
    )
    after = [each for each in found if each > query.get('marker', '')]
    limit = int(query.get('limit', 1000))
    page = {
        'servers': [{'id': each, 'name': state.servers[each]['name']} for each in after[:limit]]
    }
    if len(after) > limit:
        page['servers_links'] = [{'rel': 'next', 'href': '-'}]
    return page


def _detail(request: Any) -> Record:
    """List all, whatever host they are on, or those that are locked, without a step."""
    wants = request.query.get('locked') == 'True'
    found = request.server.state.servers.values()
    return {'servers': [_shown(each) for each in found if each['locked'] or not wants]}


def _actions(request: Any, server_id: str) -> Record:
    _, _, server = _find(request, server_id)
    return {'instanceActions': [{'action': each} for each in server.get('actions', ())]}


def _act(request: Any, server_id: str) -> Any:
    state, caller, server = _find(request, server_id)
    ((name, argument),) = request.body.items()
    entry = {'what': name, 'id': server_id, 'as': caller['user_id']}
    if name == 'lock':
        kind = 'admin' if 'admin' in caller['roles'] else 'owner'
        server.update(locked=kind, locked_reason=argument['locked_reason'])
        state.put('servers', server, entry)
        return None
    if name == 'unlock':
        return _unlock(state, caller, server, entry)
    if name == 'wake_up' and not _may_wake(server, caller):
        raise Refusal(403, "Policy doesn't allow os_compute_api:servers:wake_up to be performed.")
    _check_lock(server, caller)
    if name == 'forceDelete':
        return _delete(state, server, entry)
    if name == 'os-resetState':
        if 'admin' not in caller['roles']:
            raise Refusal(403, "Policy doesn't allow os-resetState to be performed.")
        server.update(status=argument['state'].upper(), task_state=None, next=[])
        state.put('servers', server, entry)
        return None
    if name == 'wake_up' and server['task_state'] == 'scheduling' and not server['next']:
        # Its message was lost: see nova_ext/api/wake_up.py.
        return _begin(state, server, name, entry)
    if server['task_state']:
        raise Refusal(409, f'Cannot {name!r} while it is in task_state {server["task_state"]}')
    if name == 'os-migrateLive':
        # It is done at once; where it goes to is nobody's business.
        placement.remove_server(state, server_id)
        state.put('servers', server, entry)
        return None
    if name == 'createImage':
        return _create_image(state, server, argument, entry)
    if name == 'shelve' and len(server['name']) > 247:
        server.update(task_state='shelving')
        raise Refusal(500, "Unexpected API Error. <class 'TypeError'>")
    if name not in ACTIONS:
        raise Refusal(400, f'There is no such action: {name}.')
    return _begin(state, server, name, entry)


def _begin(state: State, server: Record, name: str, entry: Record) -> None:
    allowed, task, steps = ACTIONS[name]
    if server['status'] not in allowed:
        raise Refusal(409, f'Cannot {name!r} while it is in vm_state {server["status"]}')
    if name == 'wake_up' and server['wake_failures']:
        server['wake_failures'] -= 1
        server['fault'] = {'code': 500, 'message': 'No space left on the host.'}
        steps = ('BUILD', 'RESERVED')
    if server.get('is_fast'):
        steps = steps[-1:]
    server.update(task_state=task or None, next=list(steps))
    state.put('servers', server, entry)


def _may_wake(server: Record, caller: Record) -> bool:
    if 'admin' in caller['roles']:
        return True
    return server['project_id'] == caller['project_id'] and 'service' in caller['service_roles']


def _check_lock(server: Record, caller: Record) -> None:
    if server['locked'] and 'admin' not in caller['roles']:
        raise Refusal(409, f'Instance {server["id"]} is locked')


def _unlock(state: State, caller: Record, server: Record, entry: Record) -> None:
    if server['locked'] == 'admin' and 'admin' not in caller['roles']:
        raise Refusal(403, "Policy doesn't allow unlock_override to be performed.")
    server['locked'] = False
    state.put('servers', server, entry)


def _create_image(state: State, server: Record, argument: Record, entry: Record) -> Any:
    if server['status'] not in _IMAGED:
        raise Refusal(409, f'Cannot createImage while it is in vm_state {server["status"]}')
    if server.get('no_images') or not re.fullmatch(r'\S(.{0,253}\S)?', argument['name']):
        raise Refusal(400, 'Invalid input for field/attribute createImage.')
    image = {
        'id': str(uuid.uuid4()),
        'status': 'queued',
        'name': argument['name'],
        'server_id': server['id'],
        'project_id': server['project_id'],
        'metadata': argument.get('metadata', {}),
    }
    state.put('images', image, {'what': 'image create', 'id': image['id'], 'name': image['name']})
    server.update(task_state='image_snapshot', next=[server['status']])
    state.put('servers', server, entry)
    return 202, {}, {'image_id': image['id']}


def _rename(request: Any, server_id: str) -> Record:
    _, _, server = _find(request, server_id)
    server.update(name=request.body['server']['name'])
    return {'server': server}


def _remove(request: Any, server_id: str) -> Any:
    state, caller, server = _find(request, server_id)
    _check_lock(server, caller)
    if server['next'] == ['GONE']:
        # Another request is as good as a look.
        _step(state, server)
    elif server['task_state'] != 'deleting':
        # Else it is ignored (nova/compute/api.py ``_delete``).
        _delete(state, server, {'what': 'delete', 'id': server_id, 'as': caller['user_id']})
    return 204, {}, None


def _delete(state: State, server: Record, entry: Record) -> None:
    server.update(task_state='deleting', next=['GONE'])
    state.put('servers', server, entry)


def _attachments(request: Any, server_id: str) -> Record:
    state, _, _ = _find(request, server_id)
    found = [each for each in state.attachments.values() if each['instance'] == server_id]
    return {
        'volumeAttachments': [
            {'volumeId': each['volume_id'], 'attachment_id': each['id']} for each in found
        ]
    }


def _detach(request: Any, server_id: str, volume_id: str) -> None:
    state, caller, server = _find(request, server_id)
    attachment = _attachment(state, server_id, volume_id)
    if attachment['root']:
        raise Refusal(400, 'Cannot detach a root device volume')
    _check_lock(server, caller)
    if server['task_state']:
        raise Refusal(409, f'Cannot detach while it is in task_state {server["task_state"]}')
    if server['status'] == 'SHELVED_OFFLOADED':
        # No host has it: Nova lets go of it at once (_local_cleanup_bdm_volumes).
        cinder.leave(state, attachment, caller)
    else:
        cinder.begin_detaching(state, attachment, caller)


def _keep_volume(request: Any, server_id: str, volume_id: str) -> None:
    state, wanted = _find(request, server_id)[0], request.body['volumeAttachment']
    if wanted['volumeId'] != volume_id:
        raise Refusal(403, 'Swapping volumes is for administrators.')
    attachment = _attachment(state, server_id, volume_id)
    attachment['delete_on_termination'] = wanted['delete_on_termination']
    entry = {'what': 'attachment is', 'id': attachment['id']}
    state.put('attachments', attachment, entry)


def _set_metadata(request: Any, server_id: str) -> Record:
    state, caller, server = _find(request, server_id)
    _check_lock(server, caller)
    if server['task_state']:
        raise Refusal(409, f'Cannot update metadata while it is {server["task_state"]}')
    server.setdefault('metadata', {}).update(request.body['metadata'])
    state.put('servers', server, {'what': 'metadata', 'id': server_id})
    return {'metadata': server['metadata']}


def _get_metadata(request: Any, server_id: str, key: str) -> Record:
    metadata = _find(request, server_id)[2].get('metadata', {})
    if key not in metadata:
        raise Refusal(404, 'Metadata item was not found')
    return {'meta': {key: metadata[key]}}


def _delete_metadata(request: Any, server_id: str, key: str) -> tuple[int, dict[str, str], None]:
    state, _, server = _find(request, server_id)
    del server['metadata'][key]
    state.put('servers', server, {'what': 'metadata', 'id': server_id})
    return 204, {}, None


def _attachment(state: State, server_id: str, volume_id: str) -> Record:
    for attachment in state.attachments.values():
        if (attachment['instance'], attachment['volume_id']) == (server_id, volume_id):
            return attachment
    raise Refusal(404, f'Instance {server_id} is not attached to volume {volume_id}')


def zones(request: Any) -> Record:
    """List the availability zones of Nova, or of Cinder; no host of the zone off is enabled."""
    request.caller()
    states = {'nova': True, 'off': False}
    return {
        'availabilityZoneInfo': [
            {'zoneName': name, 'zoneState': {'available': available}}
            for name, available in states.items()
        ]
    }


_COMPUTE = r'/compute/v2\.1'
_SERVER = f'{_COMPUTE}/servers/([^/]+)'
ROUTES = (
    ('GET', '/compute', lambda r: (300, {}, {'versions': [_version(r)]})),
    ('GET', _COMPUTE, lambda r: {'version': _version(r)}),
    ('GET', f'{_COMPUTE}/servers', _list),
    ('POST', f'{_COMPUTE}/servers', _create),
    ('GET', f'{_COMPUTE}/os-availability-zone', zones),
    ('GET', f'{_COMPUTE}/os-keypairs/key', lambda r: {'keypair': {'name': 'key'}}),
    (
        'GET',
        f'{_COMPUTE}/os-server-groups/{SERVER_GROUP}',
        lambda r: {'server_group': {'id': SERVER_GROUP}},
    ),
    ('GET', f'{_COMPUTE}/servers/detail', _detail),
    ('GET', _SERVER, _show),
    ('GET', f'{_SERVER}/os-instance-actions', _actions),
    ('DELETE', _SERVER, _remove),
    ('POST', f'{_SERVER}/action', _act),
    ('POST', f'{_SERVER}/metadata', _set_metadata),
    ('GET', f'{_SERVER}/metadata/([^/]+)', _get_metadata),
    ('DELETE', f'{_SERVER}/metadata/([^/]+)', _delete_metadata),
    ('GET', f'{_SERVER}/os-volume_attachments', _attachments),
    ('DELETE', f'{_SERVER}/os-volume_attachments/([^/]+)', _detach),
    ('PUT', _SERVER, _rename),
    ('PUT', f'{_SERVER}/os-volume_attachments/([^/]+)', _keep_volume),
)
