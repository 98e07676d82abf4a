# SPDX-License-Identifier: Apache-2.0
"""The calls to Heat that a reserved stack needs.

Every function takes the connection whose rights it uses and raises the exceptions of
:mod:`climate_core.cloud.errors`: Gone if the stack does not exist, Busy if another action is in
progress, Permanent if Heat finds an error in the stack. Heat answers before an action is complete,
but after it has saved the action (heat/engine/stack.py converge_stack). Facts: Orchestration API
v1 and heat/api/openstack/v1/stacks.py. A stack is read from the list of stacks: that is one
request whatever its name, resolves no outputs, and never shows deleted stacks.
"""

import datetime
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from climate_common import limits
from climate_core import exceptions
from climate_core.cloud import errors, services
from climate_core.cloud.connections import Connection

if TYPE_CHECKING:
    import requests


HEAT = services.Service('Heat', 'orchestration')
#: A snapshot of a stack; its statuses are ``IN_PROGRESS``, ``COMPLETE``, ``FAILED``.
Snapshot = services.Copy
#: Levels of nested stacks that are read; Heat reduces it to its maximum.
_DEPTH = 100


class StackNameTaken(exceptions.Permanent):
    """The project has a stack of this name already."""


class Stack(NamedTuple):
    """A stack.

    :param status: its last action and the outcome, ``UPDATE_FAILED``
    :param reason: the reason of the status
    :param parent: the id of the stack that it is nested in; None: it is a root stack
    :param owner: the name of the user who created it
    :param project: the id of its project; None if Heat does not show it
    :param updated: when the last action started, to the second; None: no action since ``created``
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
        """Return when the last action started, UTC."""
        when = datetime.datetime.fromisoformat(self.updated or self.created)
        return when if when.tzinfo else when.replace(tzinfo=datetime.UTC)

    @property
    def in_progress(self) -> bool:
        """Return whether an action is in progress, or a dead engine left it in progress."""
        return self.status.endswith('_IN_PROGRESS')

    @property
    def path(self) -> str:
        """Return the path of the stack, below the project, in the API of Heat."""
        return f'/stacks/{self.name}/{self.id}'


def get(conn: Connection, stack_id: str) -> Stack:
    """Return a stack, which may be nested."""
    query = {'id': stack_id, 'show_nested': 'true', 'show_hidden': 'true'}
    stacks = HEAT.read(conn, '/stacks', 'stacks', query)
    if not stacks:
        raise errors.Gone(f'There is no stack {stack_id} in this project.')
    return _parse(stacks[0])


def read_project(stack: Stack) -> str | None:
    """Return the project of a stack; Heat shows it to administrators."""
    return stack.project


def _parse(shown: Mapping[str, Any]) -> Stack:
    return Stack(
        id=shown['id'],
        name=shown['stack_name'],
        status=shown['stack_status'],
        reason=str(shown.get('stack_status_reason') or 'Heat reports no reason'),
        parent=shown.get('parent') or None,
        owner=shown.get('stack_owner') or None,
        project=shown.get('project') or None,
        updated=shown.get('updated_time') or None,
        created=shown['creation_time'],
        tags=frozenset(shown.get('tags') or ()),
    )


def find(conn: Connection, name: str) -> Stack | None:
    """Return the stack of the project with this name; None if it does not exist."""
    stacks = HEAT.read(conn, '/stacks', 'stacks', {'name': name, 'show_hidden': 'true'})
    return _parse(stacks[0]) if stacks else None


def preview(conn: Connection, request: Mapping[str, Any]) -> list[Any]:
    """Preview a stack: Heat checks its resources and creates nothing.

    :param request: as for :func:`create`
    :returns: its resources with their properties; those of a nested stack are a list
    """
    response = _send_new(conn, '/stacks/preview', request)
    return errors.read_response(response, HEAT.name, 'stack').get('resources') or []


def create(conn: Connection, request: Mapping[str, Any]) -> str:
    """Request a stack; return its id.

    :param request: ``stack_name``, ``template``, perhaps ``parameters``, ``environment``,
        ``files``, ``tags`` (a text with commas)
    :raises StackNameTaken: the project has a stack of this name
    """
    response = _send_new(conn, '/stacks', request)
    return str(errors.read_response(response, HEAT.name, 'stack')['id'])


def _send_new(conn: Connection, path: str, request: Mapping[str, Any]) -> 'requests.Response':
    response = HEAT.send(conn, 'POST', path, request)
    kind = {409: StackNameTaken, 413: exceptions.Permanent}.get(response.status_code)
    return errors.check_response(response, HEAT.name, kind)


def read_files(conn: Connection, stack: Stack) -> Mapping[str, str]:
    """Return the files of a stack: name -> text."""
    files: dict[str, str] = HEAT.read(conn, f'{stack.path}/files')
    return files


def find_root(conn: Connection, stack: Stack) -> Stack:
    """Return the root stack of a stack."""
    while stack.parent:
        stack = get(conn, stack.parent)
    return stack


def update_existing(
    conn: Connection, stack: Stack, changes: Mapping[str, Any] | None = None
) -> None:
    """Update a stack with its present values: ``openstack stack update --existing``.

    :param changes: new values, as for :func:`create`. Heat merges an environment into that of the
        stack (heat/engine/service.py _prepare_stack_updates)
    """
    HEAT.request(conn, 'PATCH', stack.path, changes or {})


def act(conn: Connection, stack: Stack, action: str) -> None:
    """Request an action, ``suspend`` or ``resume``."""
    HEAT.request(conn, 'POST', f'{stack.path}/actions', {action: None})


def delete(conn: Connection, stack: Stack) -> None:
    """Request the deletion of a stack."""
    HEAT.request(conn, 'DELETE', stack.path)


def build_snapshot_name(prefix: str, stack: Stack, reservation_id: str) -> str:
    """Return the name of the snapshot of a reservation, which ends with the reservation's id."""
    end = f'_{reservation_id}'
    return f'{prefix}{stack.name}'[: limits.NAME_LENGTH - len(end)] + end


def find_snapshot(conn: Connection, stack: Stack, reservation_id: str) -> Snapshot | None:
    """Return the snapshot of a reservation, a complete one if there are several."""
    snapshots = (
        Snapshot(row['id'], row['status'], str(row.get('status_reason') or ''))
        for row in HEAT.read(conn, f'{stack.path}/snapshots', 'snapshots')
        if str(row.get('name') or '').endswith(f'_{reservation_id}')
    )
    return Snapshot.best(snapshots, {'COMPLETE'})


def create_snapshot(conn: Connection, stack: Stack, name: str) -> None:
    """Request a snapshot."""
    HEAT.request(conn, 'POST', f'{stack.path}/snapshots', {'name': name})


def delete_snapshot(conn: Connection, stack: Stack, snapshot_id: str) -> None:
    """Request the deletion of a snapshot."""
    HEAT.request(conn, 'DELETE', f'{stack.path}/snapshots/{snapshot_id}')


def list_physical_ids(conn: Connection, stack: Stack) -> set[str]:
    """Return the physical ids of the resources of a stack and its nested stacks, in one call."""
    path = f'{stack.path}/resources'
    rows = HEAT.read(conn, path, 'resources', {'nested_depth': _DEPTH})
    return {str(row['physical_resource_id']) for row in rows} - {''}


def read_last_event_id(conn: Connection, stack: Stack) -> str | None:
    """Return the id of the last event of the resources of a stack and its nested stacks."""
    query = {'limit': 1, 'sort_dir': 'desc', 'nested_depth': _DEPTH}
    events = HEAT.read(conn, f'{stack.path}/events', 'events', query)
    return str(events[0]['id']) if events else None


def check_all_visible(conn: Connection) -> None:
    """Raise Forbidden if these rights do not see the stacks of every project.

    A list of stacks does not show that: Heat reduces it to the own project for other users. So
    this requests a list that only administrators get.
    """
    HEAT.request(conn, 'GET', '/services')


def list_ids(conn: Connection, tag: str | None = None) -> Iterator[str]:
    """Yield the ids of all root stacks of all projects, one call for each thousand.

    To an administrator Heat lists every project's (heat/db/api.py ``_query_stack_get_all``);
    ``global_tenant`` is forbidden to all by default.

    :param tag: only of stacks with this tag
    """
    which = {} if tag is None else {'tags': tag}
    for stack in HEAT.pages(conn, '/stacks', 'stacks', {'show_hidden': 'true', **which}):
        yield str(stack['id'])
