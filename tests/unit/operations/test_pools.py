# SPDX-License-Identifier: Apache-2.0
"""Pools of hosts that are for some projects and domains, in each database."""

import uuid
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import pytest

from climate_core import exceptions
from climate_core.calendar.model import Access
from climate_core.context import RequestContext
from climate_hosts.db import hosts as db
from climate_hosts.hosts import Pool
from climate_hosts.nodes import Node
from climate_hosts.plugins.capacity import SizesPlugin
from climate_hosts.plugins.host import HostPlugin
from tests.support.created import get_id
from tests.support.world import World

WANTED = {
    HostPlugin: {},
    SizesPlugin: {'vcpus': 64, 'memory_mb': 1, 'disk_gb': 0},
}
Lease = Callable[..., set[str]]


def enrol(world: World, name: str, pool: str) -> int:
    known = Node(
        hypervisor_hostname=name,
        service_name=name,
        capacity={'vcpus': 64, 'memory_mb': 1024},
        details={'vcpus': 64},
    )
    return world.database.write(db.insert, pool, str(uuid.uuid4()), ('a', 'b'), known, {name: 1})


def restrict(world: World, *project_ids: str, domain_ids: Any = (), pool: str = 'gpu') -> None:
    value = Access(frozenset(project_ids), frozenset(domain_ids)).dump()
    world.database.write(db.set_pool_access, pool, value)


@pytest.fixture(params=WANTED, ids=lambda plugin: plugin.resource_type)
def ask(any_world: World, request: Any) -> Callable[..., Any]:
    """Asks for one host, or all the room on one, by an operation on leases."""
    plugin, conf = request.param, any_world.conf
    conf.register_opts(plugin.options, group=plugin.resource_type)
    any_world.plugins[plugin.resource_type] = plugin(conf, None)

    def ask(operation: str, project: str = 'p1', domain: str = 'd1', **more: Any) -> Any:
        context = RequestContext(
            user_id='user', project_id=project, project_domain_id=domain, overwrite=False
        )
        wanted = {'resource_type': plugin.resource_type, **WANTED[plugin], **more}
        body = {'name': str(uuid.uuid4()), 'start_date': 'now', 'duration': '2h'}
        body['reservations'] = [wanted]
        return attrgetter(operation)(any_world.operations)(context, body)

    return ask


@pytest.fixture
def lease(any_world: World, ask: Callable[..., Any]) -> Lease:
    """Leases one host, or all the room on one, and tells which."""

    def lease(*whose: str, **more: Any) -> set[str]:
        lease_id = get_id(ask('creator.create_lease', *whose, **more))
        (reservation,) = any_world.lease(lease_id).reservations
        return {each.unit['hypervisor_hostname'] for each in reservation.allocations}

    return lease


def test_only_those_who_are_named_get_its_hosts(any_world: World, lease: Lease) -> None:
    enrol(any_world, 'cn1', 'gpu')
    restrict(any_world, 'p2', domain_ids=['d3'])
    enrol(any_world, 'cn2', 'gpu')
    with pytest.raises(exceptions.NotEnough):
        lease()
    assert lease('p2') | lease('any', 'd3') == {'cn1', 'cn2'}


def test_others_get_hosts_of_other_pools(any_world: World, lease: Lease) -> None:
    enrol(any_world, 'cn1', 'gpu')
    enrol(any_world, 'cn2', 'default')
    restrict(any_world, 'p2')
    assert lease() == {'cn2'}
    restrict(any_world)
    assert lease() == {'cn1'}


@pytest.mark.parametrize('pool', ['gpu', 'none'])
def test_pool_of_others_is_told_like_one_that_is_not_there(
    any_world: World, lease: Lease, pool: str
) -> None:
    enrol(any_world, 'cn1', 'gpu')
    enrol(any_world, 'cn2', 'default')
    restrict(any_world, 'p2')
    with pytest.raises(
        exceptions.HostPoolNotFound, match=f'pool: there is no pool {pool} with'
    ) as caught:
        lease(pool=pool)
    assert (caught.value.status, caught.value.field) == (404, 'reservations[0].pool')
    assert not any_world.trusts.present
    # Neither do the properties of its hosts tell that it is there.
    with pytest.raises(exceptions.BadRequest, match='resources: there is no property cn1'):
        lease(resources='cn1==1')


def test_availability_and_dry_run_offer_nothing_of_others(
    any_world: World, ask: Callable[..., Any]
) -> None:
    enrol(any_world, 'cn1', 'gpu')
    restrict(any_world, 'p2')
    assert [len(ask('find_windows', project)) for project in ('p1', 'p2')] == [0, 1]
    assert [ask('check_lease', project)['granted'] for project in ('p1', 'p2')] == [False, True]
    with pytest.raises(exceptions.HostPoolNotFound):
        ask('find_windows', pool='gpu')
    (refused,) = ask('check_lease', pool='gpu')['refusals']
    assert refused['error_name'] == 'host.pool_not_found'


def test_host_that_changes_its_pool_is_for_those_of_the_new_one(
    any_world: World, lease: Lease
) -> None:
    host_id = enrol(any_world, 'cn1', 'default')
    restrict(any_world, 'p2')

    def move(session: Any) -> None:
        unit = {'pool': 'gpu', 'access': db.lock_pool_access(session, 'gpu')}
        db.HOSTS.update(session, host_id, unit, {})

    any_world.database.write(move)
    with pytest.raises(exceptions.NotEnough):
        lease()
    assert any_world.database.read(db.list_pools) == [
        Pool('default', 0),
        Pool('gpu', 1, ['p2'], [], 1),
    ]


def test_pool_is_deleted_when_it_has_no_hosts(any_world: World) -> None:
    database = any_world.database
    host_id = enrol(any_world, 'cn1', 'gpu')
    restrict(any_world, 'p2')
    with pytest.raises(exceptions.HostPoolInUse, match='gpu has 1 host:'):
        database.write(db.delete_pool, 'gpu')
    database.write(db.HOSTS.delete, host_id)
    database.write(db.delete_pool, 'gpu')
    with pytest.raises(exceptions.HostPoolNotFound, match='no pool gpu'):
        database.write(db.delete_pool, 'gpu')
    enrol(any_world, 'cn1', 'gpu')
    assert database.read(db.get_pool, 'gpu') == Pool('gpu', 1)
