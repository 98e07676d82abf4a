# SPDX-License-Identifier: Apache-2.0
"""The part of the Orchestration API that Climate uses, with stacks that change when looked at.

An action puts the statuses to come into ``next``; every look at the stack by its id takes one of
them, so that nothing depends on the time. An update wakes the members that are asleep, as the
classes of heat_ext do; spares sleep on.
"""

import uuid
from collections.abc import Callable
from typing import Any

from tests.support.fakes import cinder, heat_new
from tests.support.fakes.state import Record, Refusal, State, owns

_ASLEEP = {'servers': 'RESERVED', 'volumes': cinder.RESERVED}
_AWAKE = {'servers': 'ACTIVE', 'volumes': 'available'}
_FAILURE = 'Resource UPDATE failed: resources.server: No valid host was found.'


def add(state: State, **fields: Any) -> Record:
    """Put a stack into the cloud.

    Fields beside those of the API: ``members``, ids of servers and volumes; ``spares``, those of
    them that Heat leaves asleep; ``creds``, the id of the user whose rights Heat works with;
    ``next``; how often an update, a suspension, a snapshot or a
    deletion will fail (``update_failures`` and so on).
    """
    made = uuid.uuid4()
    stack: Record = {
        'id': str(made),
        'stack_name': f'stack-{made.hex[:6]}',
        'project_id': 'demo-id',
        'status': 'CREATE_COMPLETE',
        'reason': 'Stack CREATE completed successfully',
        'parent': None,
        'owner': 'alice',
        'creds': 'alice-id',
        'updated': 0,
        'created': '2082-12-01T00:00:00Z',
        'tags': [],
        'template': {},
        'environment': {},
        'parameters': {},
        'files': {},
        'built': [],
        'members': [],
        'spares': [],
        'next': [],
        'update_failures': 0,
        'resume_failures': 0,
        'suspend_failures': 0,
        'snapshot_failures': 0,
        'delete_failures': 0,
        **fields,
    }
    state.put('stacks', stack, {'what': 'stack create', 'id': stack['id']})
    return stack


def _act(state: State, stack: Record, action: str, caller: Record) -> None:
    """Begin something; what comes of it is a look away."""
    kind = action.lower()
    failed = stack[f'{kind}_failures'] > 0
    failed = failed or (kind == 'update' and heat_new.lacks_room(stack))
    stack[f'{kind}_failures'] -= failed and stack[f'{kind}_failures'] > 0
    after = f'{action}_FAILED' if failed else f'{action}_COMPLETE'
    stack.update(
        status=f'{action}_IN_PROGRESS',
        updated=stack['updated'] + 1,
        next=[after],
        reason=f'Stack {action} started',
    )
    state.put('stacks', stack, {'what': kind, 'id': stack['id'], 'as': caller['user_id']})


def _step(state: State, stack: Record) -> None:
    status = stack['next'].pop(0)
    stack.update(status=status, reason=_FAILURE if status.endswith('FAILED') else 'Fine')
    if status in _EFFECTS:
        _EFFECTS[status](state, stack)
    if stack['id'] in state.stacks:
        entry = {'what': 'stack is', 'id': stack['id'], 'status': status}
        state.put('stacks', stack, entry)


def _members(state: State, stack: Record) -> list[tuple[str, Record]]:
    return [
        (table, getattr(state, table)[each])
        for each in stack['members']
        for table in ('volumes', 'servers')
        if each in getattr(state, table)
    ]


def _wake(state: State, stack: Record) -> None:
    if heat_new.build(state, stack):
        # What is made by this update sleeps until the next one.
        return
    for table, member in _members(state, stack):
        if member['status'] == _ASLEEP[table] and member['id'] not in stack['spares']:
            member['status'] = _AWAKE[table]
            state.put(table, member, {'what': 'woken by heat', 'id': member['id']})


def _sleep(state: State, stack: Record) -> None:
    for table, member in _members(state, stack):
        if table == 'servers' and member['status'] == 'ACTIVE':
            member['status'] = 'SUSPENDED'
            state.put(table, member, {'what': 'suspended by heat', 'id': member['id']})


def _remove(state: State, stack: Record) -> None:
    for table, member in _members(state, stack):
        state.drop(table, member['id'], {'what': 'deleted by heat', 'id': member['id']})
    for each in [s for s in state.stack_snapshots.values() if s['stack_id'] == stack['id']]:
        state.drop('stack_snapshots', each['id'], {'what': 'snapshot gone', 'id': each['id']})
    state.drop('stacks', stack['id'], {'what': 'stack gone', 'id': stack['id']})


def _snapshots_are(status: str) -> Callable[[State, Record], None]:
    def complete(state: State, stack: Record) -> None:
        for each in list(state.stack_snapshots.values()):
            if (each['stack_id'], each['status']) == (stack['id'], 'IN_PROGRESS'):
                done = {**each, 'status': status, 'status_reason': stack['reason']}
                state.put('stack_snapshots', done, {'what': 'snapshot is', 'id': each['id']})

    return complete


_EFFECTS: dict[str, Callable[[State, Record], None]] = {
    'UPDATE_COMPLETE': _wake,
    'SUSPEND_COMPLETE': _sleep,
    'DELETE_COMPLETE': _remove,
    'SNAPSHOT_COMPLETE': _snapshots_are('COMPLETE'),
    'SNAPSHOT_FAILED': _snapshots_are('FAILED'),
}


def _caller(request: Any, project: str) -> Record:
    caller: Record = request.caller()
    if caller['project_id'] != project and 'admin' not in caller['roles']:
        raise Refusal(403, 'You are not authorized to complete this action.')
    return caller


def _find(request: Any, project: str, name: str, stack_id: str) -> tuple[Record, Record]:
    """Return who asks, and the stack that is asked for."""
    caller = _caller(request, project)
    stack: Record | None = request.server.state.stacks.get(stack_id)
    if not stack or not owns(caller, stack) or stack['stack_name'] != name:
        raise Refusal(404, f'The Stack ({name}) could not be found.')
    return caller, stack


def _list(request: Any, project: str) -> Record:
    caller, state, query = _caller(request, project), request.server.state, request.query
    admin = 'admin' in caller['roles']
    if query.get('id') in state.stacks and state.stacks[query['id']]['next']:
        _step(state, state.stacks[query['id']])
    found = [
        stack
        for stack in sorted(state.stacks.values(), key=lambda each: each['id'])
        if (admin or stack['project_id'] == caller['project_id'])
        and query.get('id', stack['id']) == stack['id']
        and query.get('name', stack['stack_name']) == stack['stack_name']
        and query.get('tags', '') in ('', *stack['tags'])
        and (query.get('show_nested') or not stack['parent'])
        and stack['id'] > query.get('marker', '')
    ]
    return {'stacks': [_shown(each, admin) for each in found[: int(query.get('limit', 1000))]]}


def _shown(stack: Record, admin: bool) -> Record:
    project = {'project': stack['project_id']} if admin else {}
    return {
        'id': stack['id'],
        'stack_name': stack['stack_name'],
        'stack_status': stack['status'],
        'stack_status_reason': stack['reason'],
        'parent': stack['parent'],
        'stack_owner': stack['owner'],
        'creation_time': stack['created'],
        'tags': stack['tags'] or None,
        'updated_time': f'2082-12-01T00:00:{stack["updated"]:02}Z' if stack['updated'] else None,
        **project,
    }


def _take_rights(stack: Record, caller: Record) -> None:
    """Work with the rights of the caller from now on, if that is another user than before."""
    if caller['user_id'] != stack['creds'] and caller['trust_id']:
        # Heat does not tell that Keystone refused it a trust (heat/api/middleware/fault.py).
        raise Refusal(500, 'Internal Server Error')
    stack['creds'] = caller['user_id']


def _update(request: Any, project: str, name: str, stack_id: str) -> Any:
    caller, stack = _find(request, project, name, stack_id)
    _take_rights(stack, caller)
    if request.body.keys() - {'template', 'environment', 'tags'}:
        raise Refusal(400, 'Only what fills a stack is expected here.')
    if stack['status'].startswith(('SUSPEND_', 'DELETE_')):
        raise Refusal(400, 'Updating a stack when it is suspended is not supported.')
    heat_new.change(stack, request.body)
    # With convergence an update takes over from whatever goes on.
    _act(request.server.state, stack, 'UPDATE', caller)
    return 202, {}, None


def _create(request: Any, project: str) -> Any:
    caller, state = _caller(request, project), request.server.state
    if caller['trust_id']:
        raise Refusal(403, 'You are not authorized to perform the requested action: create trust')
    made = add(
        state,
        status='CREATE_IN_PROGRESS',
        next=['CREATE_COMPLETE'],
        **heat_new.check(state, request.body, caller),
    )
    return 201, {}, {'stack': {'id': made['id']}}


def _preview(request: Any, project: str) -> Record:
    made = heat_new.check(request.server.state, request.body, _caller(request, project))
    return {'stack': {'id': 'None', 'resources': heat_new.shown(made)}}


def _files(request: Any, project: str, name: str, stack_id: str) -> Any:
    files: Record = _find(request, project, name, stack_id)[1]['files']
    return files


def _action(request: Any, project: str, name: str, stack_id: str) -> Any:
    caller, stack = _find(request, project, name, stack_id)
    (action,) = request.body
    if action not in ('suspend', 'resume'):
        raise Refusal(400, f'Invalid action {action} specified')
    _act(request.server.state, stack, action.upper(), caller)
    return 202, {}, None


def _delete(request: Any, project: str, name: str, stack_id: str) -> Any:
    caller, stack = _find(request, project, name, stack_id)
    _take_rights(stack, caller)
    _act(request.server.state, stack, 'DELETE', caller)
    return 204, {}, None


def _resources(request: Any, project: str, name: str, stack_id: str) -> Record:
    _, stack = _find(request, project, name, stack_id)
    state, below = request.server.state, [stack]
    if int(request.query.get('nested_depth', 0)):
        below += [each for each in state.stacks.values() if each['parent'] == stack_id]
    found = [member for each in below for member in ['', *each['members']]]
    return {'resources': [{'physical_resource_id': each} for each in found]}


def _events(request: Any, project: str, name: str, stack_id: str) -> Record:
    """Return the events of a stack: its text ``event``, if it has one."""
    _, stack = _find(request, project, name, stack_id)
    return {'events': [{'id': stack['event']}] if 'event' in stack else []}


def _snapshots(request: Any, project: str, name: str, stack_id: str) -> Record:
    _find(request, project, name, stack_id)
    every = request.server.state.stack_snapshots.values()
    return {'snapshots': [each for each in every if each['stack_id'] == stack_id]}


def _snapshot(request: Any, project: str, name: str, stack_id: str) -> Record:
    caller, stack = _find(request, project, name, stack_id)
    if stack['status'].endswith('_IN_PROGRESS'):
        raise Refusal(409, f'Stack {name} already has an action in progress.')
    made = {
        'id': str(uuid.uuid4()),
        'name': request.body['name'],
        'stack_id': stack_id,
        'status': 'IN_PROGRESS',
    }
    state = request.server.state
    state.put('stack_snapshots', made, {'what': 'snapshot create', 'id': made['id']})
    _act(state, stack, 'SNAPSHOT', caller)
    return made


def _delete_snapshot(request: Any, project: str, name: str, stack_id: str, key: str) -> Any:
    _find(request, project, name, stack_id)
    state = request.server.state
    if state.stack_snapshots[key]['status'] == 'IN_PROGRESS':
        raise Refusal(400, 'Deleting in-progress snapshot is not supported.')
    entry = {'what': 'snapshot delete', 'id': key}
    state.drop('stack_snapshots', key, entry)
    return 204, {}, None


def _services(request: Any, project: str) -> Record:
    if 'admin' not in _caller(request, project)['roles']:
        raise Refusal(403, 'You are not authorized to complete this action.')
    return {'services': []}


_V1 = '/heat/v1/([^/]+)'
_STACK = f'{_V1}/stacks/([^/]+)/([^/]+)'
ROUTES = (
    ('GET', f'{_V1}/stacks', _list),
    ('POST', f'{_V1}/stacks', _create),
    ('POST', f'{_V1}/stacks/preview', _preview),
    ('GET', f'{_V1}/services', _services),
    ('GET', f'{_STACK}/files', _files),
    ('PATCH', _STACK, _update),
    ('DELETE', _STACK, _delete),
    ('POST', f'{_STACK}/actions', _action),
    ('GET', f'{_STACK}/resources', _resources),
    ('GET', f'{_STACK}/events', _events),
    ('GET', f'{_STACK}/snapshots', _snapshots),
    ('POST', f'{_STACK}/snapshots', _snapshot),
    ('DELETE', f'{_STACK}/snapshots/([^/]+)', _delete_snapshot),
)
