# SPDX-License-Identifier: Apache-2.0
"""The few calls to Heat that a reserved stack needs.

Every function takes the connection whose rights it uses and raises the exceptions of
:mod:`climate_core.cloud.errors`: Gone if it is gone, Busy if something else is done with the
stack, Permanent if Heat finds a mistake in it. Heat answers before an action is done, but has it
in its database (heat/engine/stack.py converge_stack). Facts: Orchestration API v1 and
heat/api/openstack/v1/stacks.py. A stack is looked up in the list of stacks: that costs one request
whatever its name is, resolves no output, and never shows one that is deleted.
"""

import datetime
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from climate_common import limits
from climate_core import exceptions
from climate_core.cloud import errors, services

if TYPE_CHECKING:
    import requests

    from climate_core.cloud import connections

HEAT = services.Service('Heat', 'orchestration')
#: A snapshot of a stack; its statuses are ``IN_PROGRESS``, ``COMPLETE``, ``FAILED``.
Snapshot = services.Copy
#: Levels of nested stacks that are looked into; heat cuts it to what it allows.
_DEPTH = 100


class StackNameTaken(exceptions.Permanent):
    """There is a stack of this name in the project already."""


class Stack(NamedTuple):
    """A stack as far as it matters here.

    :param status: its last action and how it went, ``UPDATE_FAILED``
    :param reason: Heat's words about the status
    :param parent: the id of the stack that it is nested in; None if in none
    :param owner: the name of the user who made it
    :param project: the project that it belongs to; None if only its own project sees it
    :param updated: when the last thing was begun with it, to the second; None: none was since
        ``created``
    """

    id: str
    name: str
    status: str
    reason: str
    parent: str | None
    owner: str | None
    project: str | None
    updated: str | None
    created: str
    tags: frozenset[str]

    @property
    def changed_at(self) -> datetime.datetime:
        """Return when the last action on it began, UTC."""
        when = datetime.datetime.fromisoformat(self.updated or self.created)
        return when if when.tzinfo else when.replace(tzinfo=datetime.UTC)

    @property
    def in_progress(self) -> bool:
        """Return whether an action is in progress, or was left so by an engine that died."""
        return self.status.endswith('_IN_PROGRESS')

    @property
    def path(self) -> str:
        """Return its path below the project in the API of Heat."""
        return f'/stacks/{self.name}/{self.id}'


def get(conn: 'connections.Connection', stack_id: str) -> Stack:
    """Return a stack, nested ones too."""
    query = {'id': stack_id, 'show_nested': 'true', 'show_hidden': 'true'}
    found = HEAT.read(conn, '/stacks', 'stacks', query)
    if not found:
        raise errors.Gone(f'There is no stack {stack_id} in this project.')
    return _parse(found[0])


def read_project(stack: Stack) -> str | None:
    """Return the project of a stack; Heat shows it to administrators."""
    return stack.project


def _parse(shown: Mapping[str, Any]) -> Stack:
    return Stack(
        id=shown['id'],
        name=shown['stack_name'],
        status=shown['stack_status'],
        reason=str(shown.get('stack_status_reason') or 'Heat does not say why'),
        parent=shown.get('parent') or None,
        owner=shown.get('stack_owner') or None,
        project=shown.get('project') or None,
        updated=shown.get('updated_time') or None,
        created=shown['creation_time'],
        tags=frozenset(shown.get('tags') or ()),
    )


def find(conn: 'connections.Connection', name: str) -> Stack | None:
    """Return the stack of the project that has this name, if there is one."""
    found = HEAT.read(conn, '/stacks', 'stacks', {'name': name, 'show_hidden': 'true'})
    return _parse(found[0]) if found else None


def preview(conn: 'connections.Connection', wanted: Mapping[str, Any]) -> list[Any]:
    """Preview a stack: Heat checks its resources and makes nothing.

    :param wanted: what :func:`create` takes
    :returns: its resources with their properties; those of a stack in it are a list
    """
    response = _send_new(conn, '/stacks/preview', wanted)
    return errors.read_response(response, HEAT.name, 'stack').get('resources') or []


def create(conn: 'connections.Connection', wanted: Mapping[str, Any]) -> str:
    """Ask for a stack; return its id.

    :param wanted: ``stack_name``, ``template``, perhaps ``parameters``, ``environment``,
        ``files``, ``tags`` (a text with commas)
    :raises Taken: the name is
    """
    response = _send_new(conn, '/stacks', wanted)
    return str(errors.read_response(response, HEAT.name, 'stack')['id'])


def _send_new(
    conn: 'connections.Connection', path: str, wanted: Mapping[str, Any]
) -> 'requests.Response':
    response = HEAT.send(conn, 'POST', path, wanted)
    kind = {409: StackNameTaken, 413: exceptions.Permanent}.get(response.status_code)
    return errors.check_response(response, HEAT.name, kind)


def read_files(conn: 'connections.Connection', stack: Stack) -> Mapping[str, str]:
    """Return the files that a stack was made with: name -> text."""
    found: dict[str, str] = HEAT.read(conn, f'{stack.path}/files')
    return found


def find_root(conn: 'connections.Connection', stack: Stack) -> Stack:
    """Return the stack that a stack is nested in, at the very top."""
    while stack.parent:
        stack = get(conn, stack.parent)
    return stack


def update_existing(
    conn: 'connections.Connection', stack: Stack, changes: Mapping[str, Any] | None = None
) -> None:
    """Update a stack with what it has: ``openstack stack update --existing``.

    :param changes: what it shall not keep, as :func:`create` takes it. What an environment says is
        added to that of the stack (heat/engine/service.py _prepare_stack_updates)
    """
    HEAT.request(conn, 'PATCH', stack.path, changes or {})


def act(conn: 'connections.Connection', stack: Stack, action: str) -> None:
    """Ask for an action, ``suspend`` or ``resume``."""
    HEAT.request(conn, 'POST', f'{stack.path}/actions', {action: None})


def delete(conn: 'connections.Connection', stack: Stack) -> None:
    """Ask for the deletion of a stack."""
    HEAT.request(conn, 'DELETE', stack.path)


def build_snapshot_name(prefix: str, stack: Stack, reservation_id: str) -> str:
    """Name the snapshot of a reservation: its id is at the end, whatever the prefix is."""
    end = f'_{reservation_id}'
    return f'{prefix}{stack.name}'[: limits.NAME_LENGTH - len(end)] + end


def find_snapshot(
    conn: 'connections.Connection', stack: Stack, reservation_id: str
) -> Snapshot | None:
    """Return the snapshot that was made for a reservation, the complete one if there are more."""
    ours = (
        Snapshot(each['id'], each['status'], str(each.get('status_reason') or ''))
        for each in HEAT.read(conn, f'{stack.path}/snapshots', 'snapshots')
        if str(each.get('name') or '').endswith(f'_{reservation_id}')
    )
    return Snapshot.best(ours, {'COMPLETE'})


def create_snapshot(conn: 'connections.Connection', stack: Stack, name: str) -> None:
    """Ask for a snapshot."""
    HEAT.request(conn, 'POST', f'{stack.path}/snapshots', {'name': name})


def delete_snapshot(conn: 'connections.Connection', stack: Stack, snapshot_id: str) -> None:
    """Ask for the deletion of a snapshot."""
    HEAT.request(conn, 'DELETE', f'{stack.path}/snapshots/{snapshot_id}')


def list_physical_ids(conn: 'connections.Connection', stack: Stack) -> set[str]:
    """Return the ids of what a stack and the stacks in it are made of, in one call."""
    path = f'{stack.path}/resources'
    found = HEAT.read(conn, path, 'resources', {'nested_depth': _DEPTH})
    return {str(each['physical_resource_id']) for each in found} - {''}


def read_last_event_id(conn: 'connections.Connection', stack: Stack) -> str | None:
    """Return the id of the last thing that happened to a resource of a stack, nested ones too."""
    query = {'limit': 1, 'sort_dir': 'desc', 'nested_depth': _DEPTH}
    found = HEAT.read(conn, f'{stack.path}/events', 'events', query)
    return str(found[0]['id']) if found else None


def check_all_visible(conn: 'connections.Connection') -> None:
    """Raise Refused if these rights do not see the stacks of every project.

    A listing does not tell: Heat gives those of one project to users who may not see all. So
    something is asked for that only an administrator gets.
    """
    HEAT.request(conn, 'GET', '/services')


def list_ids(conn: 'connections.Connection', tag: str | None = None) -> Iterator[str]:
    """Yield the ids of all root stacks of all projects, one call for each thousand.

    To an administrator Heat lists every project's (heat/db/api.py ``_query_stack_get_all``);
    ``global_tenant`` is refused to all by default.

    :param tag: only of those that have it
    """
    which = {} if tag is None else {'tags': tag}
    for stack in HEAT.pages(conn, '/stacks', 'stacks', {'show_hidden': 'true', **which}):
        yield str(stack['id'])
