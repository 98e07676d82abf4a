# SPDX-License-Identifier: Apache-2.0
"""A manager dies after each thing it changes about hosts, in Placement itself and in Nova.

What one has done the next one does not do again, so it dies after what comes next.
"""

import pytest

from climate_common import lanes
from climate_core import exceptions
from climate_hosts import placement
from climate_hosts.watch.repair import HostRepair
from tests.kill.deaths import (
    EVENT,
    WRITE,
    check_no_error,
    check_told_once,
    check_told_once_each,
    die,
)
from tests.kill.pools import Pool, aggregates
from tests.support.databases import ENGINES


def test_enrolling_and_taking_out(stage):
    """Three names are made each time; then come the lane, what it has, and the mark.

    One that is cut off may leave a host that is new, but no longer than until it is repeated.
    """
    pool = Pool(stage)
    stage.cloud.order('hypervisors', [{'name': 'cn1'}])
    enrol = {'name': 'cn1'}
    for count in (1, 2, 3, 4, 4, 4, 4):
        assert not pool.is_marked('cn1')
        stage.operate('create_host', enrol, kill=f'{WRITE}{count}').dies()
        host = pool.find('cn1')
        assert host is None or host.is_new
    (told,) = HostRepair(stage.database, pool.conn, True).run()
    assert told.action is None
    # A server has come meanwhile: the repeat is refused, and takes away what is left.
    (server,) = stage.cloud.servers(1, status='ACTIVE')
    stage.cloud.order('claims', [{'hypervisor_id': host.provider_id, 'server_id': server}])
    with pytest.raises(exceptions.HostInUse):
        pool.enrol('cn1')
    assert (pool.find('cn1'), pool.is_marked('cn1')) == (None, False)
    pool.conn.client('placement').delete(f'/allocations/{server}')

    stage.operate('create_host', enrol).ends()
    host = pool.find('cn1')
    (lane,) = placement.list_lanes(pool.conn)
    assert (host.lane_ids, pool.is_marked('cn1'), pool.open()) == ((lane.id,), True, set())

    for count in (1, 2):
        stage.operate('delete_host', host.id, kill=f'{WRITE}{count}').dies()
        assert pool.find('cn1').is_leaving
    stage.operate('delete_host', host.id).ends()
    assert (pool.find('cn1'), pool.is_marked('cn1')) == (None, False)


@pytest.mark.parametrize('stage', [e for e in ENGINES if e != 'sqlite'], indirect=True)
def test_prepare_start_and_end(stage):
    pool = Pool(stage, 'cn1', 'cn2')
    lease = pool.lease(2, start='+90m')
    # How many slots each lane has, and whose it is; that is written again.
    writes = [f'{WRITE}{count}' for count in (1, 2, 3, 4)]
    event = 'prepare_reservation'
    die(stage, *writes, f'finish.before:{event}:1', f'finish.after:{event}:1')
    stage.until(lambda: not [e for e in stage.lease(lease).events_of(event) if e.open])
    check_no_error(stage.lease(lease))
    both = dict.fromkeys(('cn1', 'cn2'), aggregates(lease))
    assert (pool.kept(), pool.open()) == (both, set())

    stage.kill_all()
    before = pool.written()
    pool.start(lease)
    die(stage, *[f'{WRITE}1'] * 2, 'finish.before:start_lease:1', 'finish.after:start_lease:1')
    stage.until(lambda: stage.lease(lease).status == 'ACTIVE')
    check_no_error(stage.lease(lease))
    check_told_once(stage, 'lease.event.start_lease')
    assert (pool.kept(), pool.open()) == (both, {'cn1', 'cn2'})
    assert (pool.written(), pool.allocations()) == (before + 2, ['cn1', 'cn2'])

    server, before = pool.enter('cn2'), pool.written()
    stage.kill_all()
    pool.end(lease)
    # Of each lane that its lease has ended, that it is closed, and that it is nobody's; and the
    # server is deleted.
    die(stage, *[f'{WRITE}1'] * 7, 'finish.before:end_lease:1', 'finish.after:end_lease:1')
    stage.until(lambda: stage.is_over(lease))
    check_no_error(stage.lease(lease))
    check_told_once(stage, 'lease.event.end_lease')
    assert stage.cloud.effects()[server] == ['delete']
    assert (pool.kept(), pool.open(), pool.allocations()) == ({}, set(), [])
    assert pool.written() == before + 6


@pytest.mark.parametrize('stage', [e for e in ENGINES if e != 'sqlite'], indirect=True)
def test_flavor_of_a_reservation(stage):
    """It is made in three steps: the flavor, its extra specs, and who may use it."""
    pool = Pool(stage, 'cn1')
    stage.cloud.order('flavors', [{'id': 'm1', 'extra_specs': {'quota:cpu_shares': '5'}}])
    wanted = {'resource_type': 'flavor:instance', 'flavor_id': 'm1'}
    lease = pool.lease(1, start='+90m', wanted=wanted)
    (reservation,) = lease.reservations
    event = 'prepare_reservation'
    die(stage, *[f'{WRITE}1'] * 4, f'{WRITE}2', f'finish.before:{event}:1')
    stage.until(lambda: not [e for e in stage.lease(lease).events_of(event) if e.open])
    check_no_error(stage.lease(lease))
    own = pool.flavors()[reservation.id]
    assert own['name'] == f'reservation:{reservation.id}'
    assert own['extra_specs'] == {
        'quota:cpu_shares': '5',
        **dict.fromkeys(lanes.MARKS, reservation.id),
    }

    stage.kill_all()
    pool.start(lease)
    stage.manager()
    stage.until(lambda: stage.lease(lease).status == 'ACTIVE')
    stage.kill_all()
    pool.end(lease)
    # Of the lane three steps, see above; then the flavor.
    die(stage, *[f'{WRITE}1'] * 4, 'finish.before:end_lease:1', 'finish.after:end_lease:1')
    stage.until(lambda: stage.is_over(lease))
    check_no_error(stage.lease(lease))
    assert (pool.kept(), pool.open(), list(pool.flavors())) == ({}, set(), ['m1'])


def test_replacement_of_a_host(stage):
    """What the watch writes are one transaction for the host, and one for its lease."""
    pool = Pool(stage, 'cn1', 'cn2', 'cn3')
    lease = pool.lease(1)
    stage.manager()
    stage.until(lambda: stage.lease(lease).status == 'ACTIVE')
    stage.kill_all()
    (name,) = pool.open()
    stage.cloud.order('silences', [{'name': name}])
    before = pool.written()
    event = 'reallocate_reservation'
    # Of the old lane that it is given up, closed and nobody's; then the new one is opened.
    die(
        stage,
        'commit.before:host-watch:1',
        'commit.before:host-watch:2',
        f'event.claimed:{event}:1',
        *[f'{WRITE}1'] * 5,
        f'finish.before:{event}:1',
        f'finish.after:{event}:1',
    )
    stage.until(lambda: not [e for e in stage.lease(lease).events_of(event) if e.open])
    after = stage.lease(lease)
    check_no_error(after)
    assert (after.degraded, len(after.reservations[0].allocations)) == (False, 1)
    (new,) = pool.open() - {name}
    assert pool.kept() == {new: aggregates(lease)}
    assert (pool.open(), pool.allocations(), pool.written()) == ({new}, [new], before + 5)
    check_told_once(stage, 'lease.update')


def test_giving_a_host_back(stage):
    """What was closed in vain is open again; what was given back is closed for good."""
    pool = Pool(stage, 'cn1', 'cn2')
    lease = pool.lease(2)
    stage.manager()
    stage.until(lambda: stage.lease(lease).status == 'ACTIVE')
    stage.kill_all()
    pool.enter('cn1')
    asked = lease.id, {'reservations': [{'id': lease.reservations[0].id, 'min': 1, 'max': 1}]}
    both = dict.fromkeys(('cn1', 'cn2'), aggregates(lease))
    event = 'reallocate_reservation'
    # Of the lane that it is given up, closed and nobody's; the second transaction gives it back.
    for kill in (
        'commit.before:MainThread:1',
        *(f'{WRITE}{count}' for count in (1, 2, 3)),
        'commit.before:MainThread:2',
    ):
        stage.ask('update_lease', *asked, kill=kill).dies()
        assert pool.allocations() == ['cn1', 'cn2']
        stage.manager()
        stage.until(lambda: _is_idle(stage, lease))
        stage.kill_all()
        assert (pool.kept(), pool.open()) == (both, {'cn1', 'cn2'}), kill
    stage.ask('update_lease', *asked).ends()
    assert (pool.allocations(), pool.open()) == (['cn1'], {'cn1'})
    die(stage, *(f'{point}:{event}:1' for point in EVENT))
    stage.until(lambda: _is_idle(stage, lease))
    after = stage.lease(lease)
    check_no_error(after)
    assert (after.status, len(after.reservations[0].allocations)) == ('ACTIVE', 1)
    assert (pool.kept(), pool.open()) == ({'cn1': aggregates(lease)}, {'cn1'})
    check_told_once(stage, 'lease.update')


def _is_idle(stage, lease):
    return not [
        each for each in stage.lease(lease).events_of('reallocate_reservation') if each.open
    ]


@pytest.mark.parametrize('stage', [e for e in ENGINES if e != 'sqlite'], indirect=True)
def test_waiting_for_a_host(stage):
    """Tries are cut off at each point; what was granted is not granted twice."""
    pool = Pool(stage, 'cn1')
    first = pool.lease(1)
    second = pool.lease(1, kind='retry')
    assert (stage.lease(second).status, pool.allocations()) == ('WAITING', ['cn1'])
    die(stage, *(f'{point}:retry_lease:1' for point in EVENT))
    assert stage.lease(second).status == 'WAITING'
    pool.end(first)
    stage.until(lambda: stage.lease(second).status == 'ACTIVE')
    after = stage.lease(second)
    check_no_error(after)
    assert [each.event_type for each in after.events].count('start_lease') == 1
    assert (pool.allocations(), pool.open()) == (['cn1'], {'cn1'})
    check_told_once(stage, 'lease.event.retry_lease')


@pytest.mark.parametrize('stage', [e for e in ENGINES if e != 'sqlite'], indirect=True)
def test_giving_way_to_another_lease(stage):
    """A server is shelved once, and runs again once, whichever manager dies meanwhile."""
    pool = Pool(stage, 'cn1')
    first = pool.lease(1, preemptible=True)
    stage.manager()
    stage.until(lambda: stage.lease(first).status == 'ACTIVE')
    server = pool.enter('cn1')
    stage.kill_all()
    second, event = pool.lease(1), 'preempt_lease'
    # Of the lane that its lease has ended and that it is closed, of the server that it is shelved,
    # and of the lane that it is nobody's.
    die(
        stage,
        f'event.claimed:{event}:1',
        *[f'{WRITE}1'] * 4,
        f'finish.before:{event}:1',
        f'finish.after:{event}:1',
    )
    stage.until(lambda: stage.lease(second).status == 'ACTIVE')
    waits = stage.lease(first)
    assert (waits.status, len(waits.reservations)) == ('WAITING', 2)
    assert stage.cloud.effects()[server] == ['shelve']
    check_told_once(stage, f'lease.event.{event}')

    stage.kill_all()
    pool.end(second)
    # The lane of the second lease as above, then it is opened, and the server is asked to run.
    die(stage, *[f'{WRITE}1'] * 6, 'finish.before:start_lease:1', 'finish.after:start_lease:1')
    stage.until(lambda: stage.lease(first).status == 'ACTIVE')
    check_no_error(stage.lease(first))
    assert stage.cloud.effects()[server] == ['shelve', 'unshelve']
    assert (pool.open(), pool.allocations()) == ({'cn1'}, ['cn1'])


@pytest.mark.parametrize('stage', [e for e in ENGINES if e != 'sqlite'], indirect=True)
def test_two_managers_let_leases_give_way(stage):
    """Each server is shelved once and runs again once, whichever of them is faster."""
    hosts = ('cn1', 'cn2', 'cn3')
    pool = Pool(stage, *hosts)
    fillers = [pool.lease(1, preemptible=True) for _ in hosts]
    stage.manager()
    stage.until(lambda: {stage.lease(each).status for each in fillers} == {'ACTIVE'})
    servers = [pool.enter(each) for each in hosts]
    stage.kill_all()
    other = pool.lease(3)
    stage.manager()
    stage.manager()
    stage.until(lambda: stage.lease(other).status == 'ACTIVE')
    assert {stage.lease(each).status for each in fillers} == {'WAITING'}
    assert [stage.cloud.effects()[each] for each in servers] == [['shelve']] * 3
    check_told_once_each(stage, 'lease.event.preempt_lease', fillers)
    stage.kill_all()
    pool.end(other)
    stage.manager()
    stage.manager()
    stage.until(lambda: {stage.lease(each).status for each in fillers} == {'ACTIVE'})
    assert [stage.cloud.effects()[each] for each in servers] == [['shelve', 'unshelve']] * 3
    check_told_once_each(stage, 'lease.event.retry_lease', fillers)
    assert pool.allocations() == [*hosts]
