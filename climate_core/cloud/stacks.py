# SPDX-License-Identifier: Apache-2.0
"""The few calls to Heat that a reserved stack needs.

Every function takes the connection whose rights it uses and raises the exceptions of
:mod:`climate_core.cloud.errors`. Facts: Orchestration API v1 and heat/api/openstack/v1/stacks.py.
A stack is looked up in the list of stacks: that costs one request whatever its name is, resolves
no output, and never shows one that is deleted, while ``/stacks/{name}/{id}`` shows those, too.
"""

import datetime
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from climate_core import exceptions
from climate_core.cloud import adapters, errors

if TYPE_CHECKING:
    import requests
    from keystoneauth1 import adapter
    from openstack import connection

_HEAT = 'Heat'
_TYPE = 'orchestration'
#: Stacks per page.
_PAGE = 1000
#: Levels of nested stacks that are looked into; heat cuts it to what it allows.
_DEPTH = 100
#: What the name of a snapshot may have (heat/db/models.py Snapshot).
_NAME = 255


class Taken(exceptions.Permanent):
    """There is a stack of this name in the project already."""


class Stack(NamedTuple):
    """A stack as far as it matters here.

    :param status: its last action and how it went, ``UPDATE_FAILED``
    :param reason: Heat's words about the status
    :param parent: the id of the stack that it is nested in; None if in none
    :param owner: the name of the user who made it
    :param project: the project that it belongs to; None if only its own project sees it
    :param updated: when the last thing was begun with it, to the second; None if none was since it
        was created (heat/engine/stack.py converge_stack)
    :param created: when it was, as Heat writes it
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
        """When the last thing was begun with it, UTC."""
        when = datetime.datetime.fromisoformat(self.updated or self.created)
        return when if when.tzinfo else when.replace(tzinfo=datetime.UTC)

    @property
    def path(self) -> str:
        return f'/stacks/{self.name}/{self.id}'


class Snapshot(NamedTuple):
    """A snapshot of a stack.

    :param status: ``IN_PROGRESS``, ``COMPLETE``, ``FAILED``
    """

    id: str
    status: str
    reason: str


def get(conn: 'connection.Connection', stack_id: str) -> Stack:
    """Return a stack, nested ones too.

    :raises climate_core.cloud.errors.Gone: no such stack for these rights
    """
    query = {'id': stack_id, 'show_nested': 'true', 'show_hidden': 'true'}
    found = errors.read(_send(conn, 'GET', '/stacks', query=query), _HEAT, 'stacks')
    if not found:
        raise errors.Gone(f'There is no stack {stack_id} in this project.')
    return _read(found[0])


def _read(shown: Mapping[str, Any]) -> Stack:
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


def find(conn: 'connection.Connection', name: str) -> Stack | None:
    """Return the stack of the project that has this name, if there is one."""
    query = {'name': name, 'show_hidden': 'true'}
    found = errors.read(_send(conn, 'GET', '/stacks', query=query), _HEAT, 'stacks')
    return _read(found[0]) if found else None


def preview(conn: 'connection.Connection', wanted: Mapping[str, Any]) -> None:
    """Have Heat check what a stack would be made of; nothing is made.

    :param wanted: what :func:`create` takes
    :raises Taken: the name is
    :raises climate_core.exceptions.Permanent: Heat finds a mistake in it
    """
    _check_new(_send(conn, 'POST', '/stacks/preview', wanted))


def create(conn: 'connection.Connection', wanted: Mapping[str, Any]) -> str:
    """Ask for a stack; Heat has it in its database when it answers.

    :param wanted: ``stack_name``, ``template``, perhaps ``parameters``, ``environment``,
        ``files``, ``tags`` (a text with commas)
    :returns: its id
    :raises Taken: the name is
    :raises climate_core.exceptions.Permanent: Heat finds a mistake in it
    """
    response = _check_new(_send(conn, 'POST', '/stacks', wanted))
    return str(errors.read(response, _HEAT, 'stack')['id'])


def _check_new(response: 'requests.Response') -> 'requests.Response':
    said = f'{_HEAT} answered {response.status_code}: {errors.message(response)}'
    if response.status_code == 409:
        raise Taken(said)
    if response.status_code == 413:
        raise exceptions.Permanent(said)
    return errors.check(response, _HEAT)


def files(conn: 'connection.Connection', stack: Stack) -> Mapping[str, str]:
    """Return the files that a stack was made with: name -> text."""
    return errors.read_all(_send(conn, 'GET', f'{stack.path}/files'), _HEAT)


def root(conn: 'connection.Connection', stack: Stack) -> Stack:
    """Return the stack that a stack is nested in, at the very top."""
    while stack.parent:
        stack = get(conn, stack.parent)
    return stack


def wake(
    conn: 'connection.Connection', stack: Stack, changes: Mapping[str, Any] | None = None
) -> None:
    """Update a stack with what it has: ``openstack stack update --existing``.

    Heat has the update in its database when it answers (heat/engine/stack.py converge_stack).

    :param changes: what it shall not keep, as :func:`create` takes it. What an environment says is
        added to that of the stack (heat/engine/service.py _prepare_stack_updates)
    :raises climate_core.cloud.errors.Busy: something else is done with the stack
    :raises climate_core.exceptions.Permanent: Heat finds a mistake in the stack
    """
    errors.check(_send(conn, 'PATCH', stack.path, changes or {}), _HEAT)


def act(conn: 'connection.Connection', stack: Stack, action: str) -> None:
    """Ask for an action, ``suspend`` or ``resume``; Heat answers before it is done."""
    errors.check(_send(conn, 'POST', f'{stack.path}/actions', {action: None}), _HEAT)


def delete(conn: 'connection.Connection', stack: Stack) -> None:
    """Ask for the deletion of a stack; Heat answers before it is done.

    :raises climate_core.cloud.errors.Gone: it is deleted already
    """
    errors.check(_send(conn, 'DELETE', stack.path), _HEAT)


def snapshot_name(prefix: str, stack: Stack, reservation_id: str) -> str:
    """Name the snapshot of a reservation: its id is at the end, whatever the prefix is."""
    end = f'_{reservation_id}'
    return f'{prefix}{stack.name}'[: _NAME - len(end)] + end


def find_snapshot(
    conn: 'connection.Connection', stack: Stack, reservation_id: str
) -> Snapshot | None:
    """Return the snapshot that was made for a reservation, the complete one if there are more."""
    response = _send(conn, 'GET', f'{stack.path}/snapshots')
    ours = [
        Snapshot(each['id'], each['status'], str(each.get('status_reason') or ''))
        for each in errors.read(response, _HEAT, 'snapshots')
        if str(each.get('name') or '').endswith(f'_{reservation_id}')
    ]
    return min(ours, key=lambda each: each.status != 'COMPLETE', default=None)


def create_snapshot(conn: 'connection.Connection', stack: Stack, name: str) -> None:
    """Ask for a snapshot; Heat makes its record before it answers.

    :raises climate_core.cloud.errors.Busy: something else is done with the stack
    """
    errors.check(_send(conn, 'POST', f'{stack.path}/snapshots', {'name': name}), _HEAT)


def delete_snapshot(conn: 'connection.Connection', stack: Stack, snapshot_id: str) -> None:
    """Ask for the deletion of a snapshot."""
    errors.check(_send(conn, 'DELETE', f'{stack.path}/snapshots/{snapshot_id}'), _HEAT)


def physical_ids(conn: 'connection.Connection', stack: Stack) -> set[str]:
    """Return the ids of what a stack and the stacks in it are made of, in one call."""
    query = {'nested_depth': _DEPTH}
    response = _send(conn, 'GET', f'{stack.path}/resources', query=query)
    found = errors.read(response, _HEAT, 'resources')
    return {str(each['physical_resource_id']) for each in found} - {''}


def check_all_visible(conn: 'connection.Connection') -> None:
    """Do nothing if these rights see the stacks of every project.

    A listing does not tell: Heat gives those of one project to users who may not see all. So
    something is asked for that only an administrator gets.

    :raises climate_core.cloud.errors.Refused: they do not
    """
    errors.check(_send(conn, 'GET', '/services'), _HEAT)


def offered(conn: 'connection.Connection') -> bool:
    """Tell whether the cloud has Heat at all."""
    return adapters.is_offered(_client(conn), _HEAT)


def every_id(conn: 'connection.Connection', tag: str | None = None) -> Iterator[str]:
    """Give the ids of all root stacks of all projects, one call for each thousand.

    To an administrator Heat lists every project's (heat/db/api.py ``_query_stack_get_all``);
    ``global_tenant`` is for others, and refused to all by default.

    :param tag: only of those that have it
    """
    marker: Mapping[str, str] = {}
    which = {} if tag is None else {'tags': tag}
    while True:
        query = {'limit': _PAGE, 'show_hidden': 'true', **which, **marker}
        page = errors.read(_send(conn, 'GET', '/stacks', query=query), _HEAT, 'stacks')
        yield from (str(stack['id']) for stack in page)
        if len(page) < _PAGE:
            return
        marker = {'marker': page[-1]['id']}


def _send(
    conn: 'connection.Connection',
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    query: Mapping[str, Any] | None = None,
) -> 'requests.Response':
    with errors.translated(_HEAT):
        return _client(conn).request(path, method, json=body, params=query, raise_exc=False)


def _client(conn: 'connection.Connection') -> 'adapter.Adapter':
    return adapters.make(conn, _TYPE)
