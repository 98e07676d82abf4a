# SPDX-License-Identifier: Apache-2.0
"""The part of the Block Storage API that Climate uses, with volumes that change when looked at.

An action puts the statuses to come into ``next``; every look at the volume takes one of them, so
that nothing depends on the time. The reserved volumes are those of cinder_ext.
"""

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.fakes.state import Record, Refusal, State, owns

RESERVED = 'lease-reserved'
#: What Cinder deletes without force (cinder/volume/api.py API.delete), and a reserved volume.
_DELETABLE = frozenset(
    {'available', 'error', 'error_restoring', 'error_extending', 'error_managing', RESERVED}
)
_MADE = '2026-01-01T12:00:00.000000'


def add(state: State, **fields: Any) -> Record:
    """Put a volume into the cloud, reserved unless the fields say otherwise.

    Fields beside those of the API: ``next``; how often a wake-up, a backup, a snapshot or a
    deletion will fail (``wake_failures`` and so on); ``message``, what users are told; ``hangs``,
    no copy of it is completed.
    """
    volume: Record = {
        'id': str(uuid.uuid4()),
        'name': 'v1',
        'project_id': 'demo-id',
        'status': RESERVED,
        'size': 3,
        'mark': True,
        'next': [],
        'wake_failures': 0,
        'backup_failures': 0,
        'snapshot_failures': 0,
        'delete_failures': 0,
        'message': None,
        'created_at': _MADE,
        'updated_at': _MADE,
        **fields,
    }
    state.put('volumes', volume, {'what': 'volume create', 'id': volume['id']})
    return volume


def attach(state: State, volume_id: str, server_id: str | None, **fields: Any) -> Record:
    """Put a volume into a server; ``root`` and ``delete_on_termination`` are Nova's."""
    attachment = {
        'id': str(uuid.uuid4()),
        'volume_id': volume_id,
        'instance': server_id,
        'status': 'attached',
        'root': False,
        'delete_on_termination': False,
        **fields,
    }
    state.put('attachments', attachment, {'what': 'attachment create', 'id': attachment['id']})
    _becomes(state, state.volumes[volume_id], 'in-use')
    return attachment


def begin_detaching(state: State, attachment: Record, caller: Record) -> None:
    """Begin to detach a volume, as Nova does first; a look later that has ended."""
    volume = state.volumes[attachment['volume_id']]
    if volume['status'] != 'in-use':
        raise Refusal(400, f'Invalid volume: status must be in-use, is {volume["status"]}')
    volume.update(status='detaching', leaves=attachment['id'], next=['available'])
    entry = {'what': 'detach', 'id': volume['id'], 'as': caller['user_id']}
    state.put('volumes', volume, entry)


def leave(state: State, attachment: Record, caller: Record) -> None:
    """Detach a volume, as Nova does for a server without a host."""
    volume = state.volumes[attachment['volume_id']]
    entry = {'what': 'detach', 'id': volume['id'], 'as': caller['user_id']}
    state.put('volumes', volume, entry)
    _leave(state, attachment)


def leave_all(state: State, server_id: str) -> None:
    """Free the volumes of a server that is gone, or delete them with it."""
    for each in [a for a in state.attachments.values() if a['instance'] == server_id]:
        _leave(state, each)


def _leave(state: State, attachment: Record) -> None:
    _forget(state, attachment)
    volume = state.volumes.get(attachment['volume_id'])
    if volume and attachment['delete_on_termination']:
        _gone(state, volume)
    elif volume:
        volume.update(next=['available'])
        _becomes(state, volume, 'detaching')


def _forget(state: State, attachment: Record) -> None:
    entry = {'what': 'attachment gone', 'id': attachment['id']}
    state.drop('attachments', attachment['id'], entry)


def _gone(state: State, volume: Record) -> None:
    state.drop('volumes', volume['id'], {'what': 'volume gone', 'id': volume['id']})


def _becomes(state: State, volume: Record, status: str) -> None:
    volume['status'] = status
    state.put('volumes', volume, {'what': 'volume is', 'id': volume['id'], 'status': status})


def _step(state: State, volume: Record) -> None:
    status = volume['next'].pop(0)
    if status == 'GONE':
        _gone(state, volume)
        return
    if volume['status'] == 'backing-up':
        _finish(state, 'backup', volume)
    leaving = state.attachments.get(volume.pop('leaves', None) or '')
    if leaving:
        _forget(state, leaving)
    if status == 'available':
        volume['mark'] = False
        status = 'in-use' if _attachments(state, volume) else status
    _becomes(state, volume, status)


def _finish(state: State, kind: str, volume: Record) -> None:
    """Complete the copies of a volume that are being made."""
    table = f'{kind}s'
    if volume.get('hangs'):
        return
    for copy in list(getattr(state, table).values()):
        if (copy['volume_id'], copy['status']) != (volume['id'], 'creating'):
            continue
        failed = volume[f'{kind}_failures'] > 0
        volume[f'{kind}_failures'] -= failed
        done = {**copy, 'status': 'error' if failed else 'available'}
        if failed and kind == 'backup':
            done['fail_reason'] = 'The object store is full.'
        state.put(table, done, {'what': f'{kind} complete', 'id': copy['id']})


def _attachments(state: State, volume: Record) -> list[Record]:
    return [each for each in state.attachments.values() if each['volume_id'] == volume['id']]


def _find(request: Any, project: str, table: str, key: str) -> Record:
    caller = _caller(request, project)
    record: Record | None = getattr(request.server.state, table).get(key)
    if not record or not owns(caller, record):
        raise Refusal(404, f'{table.removesuffix("s").capitalize()} {key} could not be found.')
    return record


def _caller(request: Any, project: str) -> Record:
    caller: Record = request.caller()
    if caller['project_id'] != project:
        raise Refusal(400, 'Malformed request url')
    return caller


def _show_volume(request: Any, project: str, volume_id: str) -> Record:
    volume = _find(request, project, 'volumes', volume_id)
    state = request.server.state
    if volume['next']:
        _step(state, volume)
        volume = _find(request, project, 'volumes', volume_id)
    shown = {k: volume[k] for k in ('id', 'name', 'status', 'size', 'created_at', 'updated_at')}
    complete = [a for a in _attachments(state, volume) if a['status'] == 'attached']
    attached = [{'attachment_id': a['id'], 'server_id': a['instance']} for a in complete]
    tenant = {'os-vol-tenant-attr:tenant_id': volume['project_id']}
    host = {'os-vol-host-attr:host': volume['host']} if 'host' in volume else {}
    return {'volume': {**shown, **tenant, **host, 'attachments': attached}}


def _show_snapshot(request: Any, project: str, snapshot_id: str) -> Record:
    found = _find(request, project, 'snapshots', snapshot_id)
    tenant = {'os-extended-snapshot-attributes:project_id': _project(request.server.state, found)}
    return {'snapshot': {**_shown(found), **tenant}}


def _list(table: str) -> Callable[..., Record]:
    """Make the listing of a table: filters, all_tenants of administrators, pages."""

    def listing(request: Any, project: str) -> Record:
        caller = _caller(request, project)
        state, query = request.server.state, request.query
        everywhere = query.get('all_tenants') and 'admin' in caller['roles']
        if table == 'snapshots':
            for volume in state.volumes.values():
                _finish(state, 'snapshot', volume)
        found = [
            record
            for record in sorted(getattr(state, table).values(), key=lambda each: each['id'])
            if (everywhere or _project(state, record) == caller['project_id'])
            and all(record[k] == query[k] for k in ('status', 'volume_id') if k in query)
            and record['id'] > query.get('marker', '')
        ]
        limit = int(query.get('limit', 1000))
        page = {table: [_shown(record) for record in found[:limit]]}
        if len(found) >= limit:
            page[f'{table}_links'] = [{'rel': 'next', 'href': '-'}]
        return page

    return listing


def _project(state: State, record: Record) -> str:
    of_volume = 'project_id' not in record
    return str((state.volumes[record['volume_id']] if of_volume else record)['project_id'])


def _shown(record: Record) -> Record:
    names = ('id', 'name', 'status', 'volume_id', 'instance', 'metadata', 'fail_reason')
    return {name: record[name] for name in names if name in record}


def _act(request: Any, project: str, volume_id: str) -> Any:
    volume = _find(request, project, 'volumes', volume_id)
    caller, state = request.caller(), request.server.state
    ((name, argument),) = request.body.items()
    entry = {'what': name, 'id': volume_id, 'as': caller['user_id']}
    if name not in ACTIONS:
        raise Refusal(400, f'There is no such action: {name}')
    ACTIONS[name](state, caller, volume, argument)
    if volume_id in state.volumes:
        state.put('volumes', volume, entry)
    return 202, {}, None


def _wake_up(state: State, caller: Record, volume: Record, _argument: Any) -> None:
    own = volume['project_id'] == caller['project_id'] and 'service' in caller['service_roles']
    if 'admin' not in caller['roles'] and not own:
        raise Refusal(403, "Policy doesn't allow climate:volumes:wake_up to be performed.")
    # One whose message was lost: see cinder_ext/api/wake_up.py.
    lost = volume['status'] == 'creating' and not volume['next']
    waits = volume['status'] in (RESERVED, 'error', 'error_restoring')
    if not (waits or lost) or not volume['mark']:
        raise Refusal(409, f'The volume is {volume["status"]}, it does not wait for a lease.')
    steps = ['downloading', 'available']
    if volume['wake_failures']:
        volume['wake_failures'] -= 1
        volume['message'] = 'create volume:Image is not there.'
        steps = [RESERVED]
    volume.update(status='creating', next=steps)


def _force_delete(state: State, caller: Record, volume: Record, _argument: Any) -> None:
    _check_admin(caller)
    if _attachments(state, volume):
        raise Refusal(400, 'Invalid volume: it must not be attached.')
    volume.update(status='deleting', next=['GONE'])


def _reset(_state: State, caller: Record, volume: Record, argument: Record) -> None:
    _check_admin(caller)
    volume.update(status=argument['status'], next=[])


def _unmanage(_state: State, caller: Record, volume: Record, _argument: Any) -> None:
    _check_admin(caller)
    if volume['status'] not in _DELETABLE:
        raise Refusal(400, f'Volume status must be available, is {volume["status"]}')
    volume.update(status='unmanaging', next=['GONE'])


def _unreserve(_state: State, _caller: Record, volume: Record, _argument: Any) -> None:
    if volume['status'] == 'attaching':
        volume.update(status='available')


def _check_admin(caller: Record) -> None:
    if 'admin' not in caller['roles']:
        raise Refusal(403, "Policy doesn't allow this to be performed.")


ACTIONS: Mapping[str, Callable[[State, Record, Record, Any], None]] = {
    'os-wake_up': _wake_up,
    'os-force_delete': _force_delete,
    'os-reset_status': _reset,
    'os-unreserve': _unreserve,
    'os-unmanage': _unmanage,
}


def _delete_volume(request: Any, project: str, volume_id: str) -> Any:
    volume = _find(request, project, 'volumes', volume_id)
    state = request.server.state
    children = [s for s in state.snapshots.values() if s['volume_id'] == volume_id]
    if volume['status'] not in _DELETABLE or children or _attachments(state, volume):
        raise Refusal(400, f'Volume status must be available, is {volume["status"]}; no snapshots')
    after = 'GONE'
    if volume['delete_failures']:
        volume['delete_failures'] -= 1
        after = 'error_deleting'
    volume.update(status='deleting', next=['deleting', after])
    entry = {'what': 'delete', 'id': volume_id, 'as': request.caller()['user_id']}
    state.put('volumes', volume, entry)
    return 202, {}, None


def _create(kind: str) -> Callable[..., Any]:
    """Make the handler that creates a backup or a snapshot."""

    def create(request: Any, project: str) -> Any:
        caller, state, wanted = _caller(request, project), request.server.state, request.body[kind]
        volume = _find(request, project, 'volumes', wanted['volume_id'])
        if volume['status'] != 'available':
            raise Refusal(400, f'Volume to be copied must be available, is {volume["status"]}')
        made = {
            'id': str(uuid.uuid4()),
            'status': 'creating',
            'project_id': caller['project_id'],
            **wanted,
        }
        if kind == 'backup':
            volume.update(status='backing-up', next=['available'])
        state.put(f'{kind}s', made, {'what': f'{kind} create', 'id': made['id']})
        state.put('volumes', volume, {'what': kind, 'id': volume['id'], 'as': caller['user_id']})
        return 202, {}, {kind: {'id': made['id']}}

    return create


def _delete(table: str) -> Callable[..., Any]:
    def delete(request: Any, project: str, key: str) -> Any:
        record = _find(request, project, table, key)
        what = f'{table.removesuffix("s")} delete'
        request.server.state.drop(table, record['id'], {'what': what, 'id': key})
        return 202, {}, None

    return delete


def _reset_copy(table: str) -> Callable[..., Any]:
    def reset(request: Any, project: str, key: str) -> Any:
        _check_admin(request.caller())
        record = getattr(request.server.state, table)[key]
        if not record.get('unbegun'):
            record['status'] = request.body['os-reset_status']['status']
        entry = {'what': 'reset', 'id': record['volume_id'], 'as': request.caller()['user_id']}
        request.server.state.put(table, record, entry)
        return 202, {}, None

    return reset


def _change_backup(request: Any, project: str, key: str) -> Any:
    record = _find(request, project, 'backups', key)
    record.update(request.body['backup'])
    entry = {'what': 'change', 'id': record['volume_id']}
    request.server.state.put('backups', record, entry)
    return {'backup': {}}


def _cancel_transfer(request: Any, project: str, key: str) -> Any:
    transfer = _find(request, project, 'transfers', key)
    state = request.server.state
    state.drop('transfers', key, {'what': 'transfer delete', 'id': key})
    _becomes(state, state.volumes[transfer['volume_id']], 'available')
    return 202, {}, None


def _delete_attachment(request: Any, project: str, key: str) -> Any:
    caller, state = _caller(request, project), request.server.state
    if key not in state.attachments:
        raise Refusal(404, f'Volume attachment {key} could not be found.')
    if 'service' not in caller['service_roles'] and 'admin' not in caller['roles']:
        raise Refusal(409, 'Detach volume using the Compute API')
    attachment = state.attachments[key]
    _forget(state, attachment)
    volume = state.volumes[attachment['volume_id']]
    _becomes(state, volume, 'in-use' if _attachments(state, volume) else 'available')
    return {'attachments': []}


def _messages(request: Any, project: str) -> Record:
    _caller(request, project)
    volume = request.server.state.volumes.get(request.query['resource_uuid'])
    text = volume and volume['message']
    return {'messages': [{'user_message': text}] if text else []}


def _services(request: Any, project: str) -> Record:
    _check_admin(_caller(request, project))
    return {'services': []}


_V3 = '/volume/v3/([^/]+)'
ROUTES = (
    ('GET', f'{_V3}/volumes', _list('volumes')),
    ('GET', f'{_V3}/volumes/([^/]+)', _show_volume),
    ('DELETE', f'{_V3}/volumes/([^/]+)', _delete_volume),
    ('POST', f'{_V3}/volumes/([^/]+)/action', _act),
    ('GET', f'{_V3}/attachments', _list('attachments')),
    ('DELETE', f'{_V3}/attachments/([^/]+)', _delete_attachment),
    ('GET', f'{_V3}/backups/detail', _list('backups')),
    ('POST', f'{_V3}/backups', _create('backup')),
    ('DELETE', f'{_V3}/backups/([^/]+)', _delete('backups')),
    ('PUT', f'{_V3}/backups/([^/]+)', _change_backup),
    ('POST', f'{_V3}/backups/([^/]+)/action', _reset_copy('backups')),
    ('POST', f'{_V3}/snapshots/([^/]+)/action', _reset_copy('snapshots')),
    ('GET', f'{_V3}/snapshots/detail', _list('snapshots')),
    ('GET', f'{_V3}/snapshots', _list('snapshots')),
    ('GET', f'{_V3}/snapshots/([^/]+)', _show_snapshot),
    ('POST', f'{_V3}/snapshots', _create('snapshot')),
    ('DELETE', f'{_V3}/snapshots/([^/]+)', _delete('snapshots')),
    ('GET', f'{_V3}/os-volume-transfer', _list('transfers')),
    ('DELETE', f'{_V3}/os-volume-transfer/([^/]+)', _cancel_transfer),
    ('GET', f'{_V3}/messages', _messages),
    ('GET', f'{_V3}/os-services', _services),
)
