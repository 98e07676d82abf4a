# SPDX-License-Identifier: Apache-2.0
"""A volume that is not there keeps only those servers of its lease waiting that use it."""

import pytest

from tests.support.fakes import cinder, nova


@pytest.fixture
def uses(leased):
    """Return two volumes, and for each a server that has it."""
    state = leased.stacks.state
    volumes = [cinder.add(state), cinder.add(state)]
    servers = [nova.add(state, volumes=[each['id']]) for each in volumes]
    return volumes, servers


@pytest.fixture
def lease_id(leased, uses):
    """Return a lease of them whose first volume is never created."""
    volumes, servers = uses
    made = leased.lease_of(alone=[each['id'] for each in (*volumes, *servers)])
    volumes[0].update(status='creating', next=['creating'] * 999)
    return made


def test_only_the_server_that_uses_it_waits(leased, uses, lease_id):
    volumes, servers = uses
    leased.look_around(9)
    assert [leased.server(each['id']) for each in servers] == ['RESERVED', 'ACTIVE']
    volumes[0].update(status='available', next=[])
    leased.run_for(lease_id, 'ACTIVE')
    assert leased.server(servers[0]['id']) == 'ACTIVE'


def test_use_of_volumes_is_looked_up_once(leased, uses, lease_id):
    volumes, servers = uses
    leased.run_until_idle()
    (waiting,) = [
        each
        for each in leased.lease(lease_id).reservations
        if each.resource_id == servers[0]['id']
    ]
    assert waiting.progress['uses'] == [volumes[0]['id']]
    with leased.stacks.counted() as sent:
        leased.look_around(9)
    assert not [each for each in sent if servers[0]['id'] in each]


def test_it_is_waited_for_as_long_as_that_is_not_known(leased, uses, lease_id):
    _, servers = uses
    leased.stacks.fault('GET', f'/servers/{servers[1]["id"]}', 503, 2)
    leased.run_until_idle()
    assert leased.server(servers[1]['id']) == 'RESERVED'
    leased.look_around(9)
    assert leased.server(servers[1]['id']) == 'ACTIVE'
    assert leased.lease(lease_id).status == 'STARTING'


@pytest.fixture
def ending(leased):
    """Return what makes a lease end of two volumes and of the server that uses the first.

    :returns: the server, the volume that it uses, and the other one
    """

    def make(on_end='delete'):
        state = leased.stacks.state
        used, free = cinder.add(state), cinder.add(state)
        server = nova.add(state, volumes=[used['id']])
        lease_id = leased.lease_of(alone=[used['id'], free['id'], server['id']])
        leased.run_for(lease_id, 'ACTIVE')
        (of_server,) = (
            each
            for each in leased.lease(lease_id).reservations
            if each.resource_id == server['id']
        )
        changed = {'reservations': [{'id': of_server.id, 'on_end': on_end}]}
        leased.operations.update_lease(leased.stacks.user(), lease_id, changed)
        leased.time.now = leased.lease(lease_id).end_date
        return lease_id, server, used['id'], free['id']

    return make


def upload_slowly(leased, server):
    """Let the upload of the image go on that was asked for."""
    (image,) = (each for each in leased.stacks.state.images.values() if each['status'] != 'active')
    image['status'] = 'saving'
    server.update(task_state='image_uploading', next=[])


def hurry(leased, looks):
    """Look again and again, ten minutes later each time."""
    for _ in range(looks):
        leased.run_until_idle()
        leased.time.forward(minutes=10)


def test_end_that_goes_on_after_a_failure_keeps_all_that_come_later(leased, ending):
    _, server, used, free = ending('create_image')
    leased.stacks.fault('POST', '/action', 503)
    leased.look_around(2)
    upload_slowly(leased, server)
    hurry(leased, 6)
    assert {used, free} <= leased.stacks.state.volumes.keys()


def test_end_whose_second_try_goes_on_keeps_all_that_come_later(leased, ending):
    lease_id, server, used, free = ending('create_image')
    leased.run_until_idle()
    leased.stacks.state.images.clear()
    server.update(task_state=None, next=[])
    leased.run_until_idle()
    while not leased.stacks.state.images:
        leased.time.forward(seconds=1)
        leased.run_until_idle()
    upload_slowly(leased, server)
    leased.look_around(1)
    failed = leased.lease(lease_id).reservations
    assert [(each.progress or {}).get('failures') for each in failed] == [None, None, 1]
    hurry(leased, 6)
    assert {used, free} <= leased.stacks.state.volumes.keys()


def test_end_whose_every_try_fails_keeps_only_what_the_server_uses(leased, ending):
    """Each is accepted, and nova-compute fails a while later."""
    _, server, used, free = ending('stop')
    for _ in range(90):
        leased.run_until_idle()
        server.update(task_state=None, next=[])
        leased.time.forward(seconds=15)
    assert used in leased.stacks.state.volumes
    assert free not in leased.stacks.state.volumes


def test_end_whose_every_try_fails_slowly_keeps_only_what_the_server_uses(leased, ending):
    """Each upload goes on for half an hour, and nova-compute fails then."""
    _, server, used, free = ending('create_image')
    for _ in range(4):
        leased.run_until_idle()
        while not leased.stacks.state.images:
            leased.time.forward(seconds=1)
            leased.run_until_idle()
        upload_slowly(leased, server)
        hurry(leased, 3)
        leased.stacks.state.images.clear()
        server.update(task_state=None, next=[])
    assert used in leased.stacks.state.volumes
    assert free not in leased.stacks.state.volumes


def test_end_that_fails_for_long_keeps_only_what_the_server_uses(leased):
    """The server cannot be stopped before it is unlocked; a person has to do that."""
    state = leased.stacks.state
    used, free = cinder.add(state), cinder.add(state)
    server = nova.add(state, volumes=[used['id']])
    lease_id = leased.lease_of(alone=[used['id'], free['id'], server['id']])
    leased.run_for(lease_id, 'ACTIVE')
    server['locked'] = 'admin'
    leased.time.now = leased.lease(lease_id).end_date
    leased.look_around(9)
    assert {used['id'], free['id']} <= state.volumes.keys()
    leased.time.forward(20 * 60)
    leased.look_around(9)
    assert used['id'] in state.volumes
    assert free['id'] not in state.volumes
    server['locked'] = False
    leased.run_for(lease_id, 'TERMINATED')
    assert used['id'] not in state.volumes
