# SPDX-License-Identifier: Apache-2.0
"""Placement itself, with a database of its own, behind the other services of the fake cloud.

It has one database for each process at a time, so the fake cloud that was asked first in a process
has it until another one is.
"""

import contextlib
import pathlib
from collections.abc import Callable
from typing import Any, ClassVar

import webob

from climate_common import lanes
from tests.support.fakes.state import Record, Refusal, State

VERSION = 'placement 1.39'
_METHODS = ('GET', 'POST', 'PUT', 'DELETE')


class Placement:
    """The application on a database.

    :param database: an SQLite file, which is made if it is not there, or the URL of an empty
        database
    :param tries: how often it tries to write a claim than which others were faster; Placement's
        default
    """

    _reset: Callable[[], None] | None = None
    #: The file of a new one with all tables and traits, which take a second to make.
    _new: ClassVar[bytes | None] = None

    def __init__(self, database: pathlib.Path | str, tries: int = 10) -> None:
        # They cost a second, and few tests need them.
        import sqlalchemy as sa
        from oslo_config import cfg
        from oslo_db.sqlalchemy import exc_filters
        from placement import conf as options
        from placement import db_api, deploy
        from placement.db.sqlalchemy import migration
        from placement.objects import resource_class, trait

        conf = cfg.ConfigOpts()
        options.register_opts(conf)
        path = database if isinstance(database, pathlib.Path) else None
        url = f'sqlite:///{path}' if path else database
        conf.set_override('connection', url, group='placement_database')
        conf.set_override('auth_strategy', 'noauth2', group='api')
        conf.set_override('allocation_conflict_retry_count', tries, group='placement')
        conf([], default_config_files=[])
        new = Placement._new if path else None
        if path and new is not None and not path.exists():
            path.write_bytes(new)
        engine = sa.create_engine(url, connect_args={'check_same_thread': False} if path else {})
        exc_filters.register_engine(engine)
        if new is None:
            migration.create_schema(engine)
        if Placement._reset is not None:
            Placement._reset()
        db_api.configure(conf)
        Placement._reset = db_api.placement_context_manager.patch_engine(engine)
        made = new is not None
        trait._TRAITS_SYNCED = resource_class._RESOURCE_CLASSES_SYNCED = made
        deploy.update_database(conf)
        if path and not made:
            engine.dispose()
            Placement._new = path.read_bytes()
        self._application = deploy.loadapp(conf)

    def ask(
        self, method: str, path: str, body: Any = None, version: str = VERSION
    ) -> webob.Response:
        """Send a request as an administrator."""
        headers = {'X-Auth-Token': 'admin', 'OpenStack-API-Version': version}
        request = webob.Request.blank(path, method=method, headers=headers)
        if body is not None:
            request.content_type = 'application/json'
            request.json = body
        return request.get_response(self._application)


def of(state: State) -> Placement:
    """Return the one of a fake cloud."""
    if state.placement is None:
        state.placement = Placement(state.file('placement.sqlite'))
    placement: Placement = state.placement
    return placement


def _serve(request: Any, path: str) -> Any:
    caller = request.caller()
    if not {'admin', 'service'} & {*caller['roles']}:
        raise Refusal(403, 'Policy does not allow this to be performed.')
    query = request.path.partition('?')[2]
    version = request.headers.get('OpenStack-API-Version', 'placement 1.0')
    response = of(request.server.state).ask(
        request.command, f'{path or "/"}?{query}', request.body, version
    )
    body = None
    with contextlib.suppress(ValueError):
        body = response.json
    return response.status_code, {}, body


def add_host(state: State, hypervisor: Record) -> None:
    """Have it know a hypervisor, as its nova-compute reports it."""
    placement = of(state)
    root = {'uuid': hypervisor['id'], 'name': hypervisor['hypervisor_hostname']}
    assert placement.ask('POST', '/resource_providers', root).status_code == 200
    body = {
        'resource_provider_generation': 0,
        'inventories': {
            'VCPU': {'total': hypervisor['vcpus'], 'allocation_ratio': 4.0},
            'MEMORY_MB': {'total': hypervisor['memory_mb'], 'reserved': 512},
            'DISK_GB': {'total': hypervisor['local_gb']},
        },
    }
    path = f'/resource_providers/{hypervisor["id"]}/inventories'
    assert placement.ask('PUT', path, body).status_code == 200


def add_server(
    state: State, hypervisor_id: str, server_id: str, lane_id: str | None = None
) -> Record:
    """Have a server on a hypervisor; by a lane, of which it takes a slot."""
    lane = {lane_id: {'resources': {lanes.SLOT: 1}}} if lane_id else {}
    body = {
        'allocations': {hypervisor_id: {'resources': {'VCPU': 1}}, **lane},
        'project_id': 'demo-id',
        'user_id': 'alice-id',
        'consumer_generation': None,
        'consumer_type': 'INSTANCE',
    }
    assert of(state).ask('PUT', f'/allocations/{server_id}', body).status_code == 204
    return body


def remove_server(state: State, server_id: str) -> None:
    """Have a server nowhere any more, wherever it was."""
    if state.placement is not None:
        state.placement.ask('DELETE', f'/allocations/{server_id}')


ROUTES = tuple((method, '/placement(/.*)?', _serve) for method in _METHODS)
