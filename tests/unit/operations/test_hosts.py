# SPDX-License-Identifier: Apache-2.0
"""Enrolling while others do so, and while things break; the rest is tried with a real Nova."""

import contextlib
import dataclasses
import itertools
import sys
import threading
import uuid

import pytest
from oslo_db import exception as db_exc

from climate_core import exceptions
from climate_core.cloud import services
from climate_core.conf import manager
from climate_core.plugins.server_placement import CandidateHost, RunningServer
from climate_hosts import lane_providers
from climate_hosts.db import hosts as db
from climate_hosts.hosts import STAYING, State
from climate_hosts.nodes import Node
from climate_hosts.operations import draining, enrolment
from climate_hosts.operations import hosts as operations_hosts
from climate_hosts.watch import isolation
from climate_hosts.watch.refresh import HostRefresher
from tests.support.fakes import hypervisors
from tests.support.fakes import placement as fake_placement

REFUSED = (exceptions.HostExists, exceptions.HostInUse, exceptions.HostChanging)
REFUSED += (exceptions.HostNotFound,)


def enrol(hosts, name='cn3', **values):
    return hosts.operations.create_host(hosts.context, {'name': name, **values})


def leave(hosts, name='cn3'):
    found = hosts.database.read(db.find, name)
    if found is not None:
        hosts.operations.delete_host(hosts.context, found.id)


def enrol_too_late(hosts):
    """Enrol it when a server is on its way; that is gone when the next one looks."""

    def fail(_seconds):
        raise exceptions.HostInUse

    late = dataclasses.replace(hosts.operations, pause=fail)
    late.create_host(hosts.context, {'name': 'cn3'})


@pytest.fixture
def meanwhile(monkeypatch):
    """Return a function that has something done before a request about the host's root."""
    send = services.Service.send

    def meanwhile(moment, root, function):
        numbers = itertools.count()

        def late(*args, **kw):
            if root in args[3] and next(numbers) == moment:
                monkeypatch.setattr(services.Service, 'send', send)
                function()
            return send(*args, **kw)

        monkeypatch.setattr(services.Service, 'send', late)
        return lambda: services.Service.send is send

    return meanwhile


@pytest.mark.parametrize(
    ('first', 'second', 'is_there'),
    [
        (enrol, enrol, False),
        (enrol, leave, False),
        (enrol, enrol_too_late, False),
        (enrol_too_late, enrol, False),
        (enrol_too_late, enrol_too_late, False),
        (leave, leave, True),
        (leave, enrol, True),
        (leave, enrol_too_late, True),
    ],
)
def test_two_requests_at_once_leave_the_host_in_a_pool_or_out(
    hosts, meanwhile, first, second, is_there
):
    """The second one runs while the first one stands still, before each of its requests."""
    hosts.conf.set_override('lanes_per_host', 1, group='hosts')
    root = hypervisors.add(hosts.state, 'cn3')['id']
    for moment in itertools.count():
        if is_there != (hosts.database.read(db.find, 'cn3') is not None):
            (enrol if is_there else leave)(hosts)
        outcomes = []

        def run(function, outcomes=outcomes):
            try:
                function(hosts)
            except REFUSED as exc:
                outcomes.append(exc)

        was_reached = meanwhile(moment, root, lambda run=run: run(second))
        run(first)
        if not was_reached():
            break
        found = hosts.database.read(db.find, 'cn3')
        assert found is None or found.available, (moment, outcomes)
        assert ('cn3' in hosts.in_pool()) == (found is not None), (moment, outcomes)
    assert moment > 1


def test_removal_that_stood_still_leaves_the_lanes_of_the_next_enrolment_alone(hosts, meanwhile):
    """Another request ended it, and the host was enrolled again, before each of its requests."""
    hosts.conf.set_override('lanes_per_host', 1, group='hosts')
    hypervisors.add(hosts.state, 'cn3')
    enrol(hosts)
    (lane_id,) = hosts.database.read(db.find, 'cn3').lane_ids

    def again():
        leave(hosts)
        enrol(hosts)
        lane_providers.set_lane_aggregates(hosts.conn, lane_id, [str(uuid.UUID(int=1))])
        lane_providers.set_slots(hosts.conn, lane_id, 1, is_open=True)

    for moment in itertools.count():
        was_reached = meanwhile(moment, '/resource_providers/', again)
        with contextlib.suppress(exceptions.HostNotFound):
            leave(hosts)
        if not was_reached():
            break
        assert lane_providers.is_open(hosts.conn, lane_id), moment
        assert lane_providers.read_access(hosts.conn, lane_id).aggregates, moment
        assert 'cn3' in hosts.in_pool()
    assert moment > 5


def test_host_that_another_request_enrols_meanwhile_stays_enrolled(hosts):
    hypervisors.add(hosts.state, 'cn3')

    def pause(_seconds):
        hosts.operations.pause = hosts.paused.append
        enrol(hosts, pool='gpu')

    hosts.operations.pause = pause
    with pytest.raises(exceptions.HostExists, match='by another request'):
        enrol(hosts)
    found = hosts.database.read(db.find, 'cn3')
    assert (found.pool, found.available, hosts.in_pool()) == ('gpu', True, {'cn1', 'cn2', 'cn3'})


def test_enrolment_that_ends_while_another_begins_is_kept_or_is_told(any_world, monkeypatch):
    """SQLite lets the end wait; elsewhere it comes after the other has read the row."""
    database, find = any_world.database, db.find
    names = {'hypervisor_hostname': 'cn3', 'service_name': 'cn3'}
    begin = ('root', ('lane',), Node(**names, capacity={}, details={}), {})
    first = database.write(enrolment._begin, *begin)
    refused = []

    def complete():
        try:
            database.write(enrolment._complete, first, 'cn3', {})
        except exceptions.HostExists as exc:
            refused.append(exc)

    ending = threading.Thread(target=complete)

    def find_before(session, name):
        monkeypatch.setattr(db, 'find', find)
        found = find(session, name)
        ending.start()
        if session.bind.dialect.name != 'sqlite':
            ending.join()
        return found

    monkeypatch.setattr(db, 'find', find_before)
    try:
        database.write(enrolment._begin, *begin)
    except exceptions.HostExists as exc:
        refused.append(exc)
    ending.join()
    found = database.read(db.find, 'cn3')
    assert (len(refused), found.available) == (1, found.id == first)


@pytest.mark.parametrize('state', [State.LEAVING, State.ENROLLING, State.NOT_ENROLLED])
@pytest.mark.parametrize(
    'values', [{'available': True}, {'disabled_reason': 'mine'}, {'pool': 'gpu'}, {'extra': {}}]
)
def test_host_that_is_put_in_or_taken_out_is_not_changed(hosts, state, values):
    values = {'available': False, **values}
    hosts.database.write(db.HOSTS.update, hosts.ids[0], {'available': False}, {'state': state})
    before = hosts.read()
    with pytest.raises(exceptions.HostChanging, match=r'[Dd]elete'):
        hosts.operations.update_host(hosts.context, hosts.ids[0], values)
    assert hosts.read() == before
    hosts.operations.delete_host(hosts.context, hosts.ids[0])
    assert hosts.in_pool() == {'cn2'}


def test_removal_that_is_refused_after_it_was_cut_off_is_told_and_can_be_ended(hosts):
    """A server was forced onto the host while it was half taken out."""
    fault = {'method': 'PUT', 'path': 'aggregates', 'status': 503, 'count': 1}
    hosts.state.faults.append(fault)
    host_id = hosts.ids[0]
    with pytest.raises(exceptions.ServiceUnavailable):
        hosts.operations.delete_host(hosts.context, host_id)
    assert hosts.read().is_leaving
    server_id = str(uuid.uuid4())
    fake_placement.add_server(hosts.state, hosts.read().provider_id, server_id)
    with pytest.raises(exceptions.HostInUse, match=server_id):
        hosts.operations.delete_host(hosts.context, host_id)
    assert (hosts.read().available, hosts.read().disabled_reason) == (False, STAYING)
    hosts.operations.update_host(hosts.context, host_id, {'available': True})
    assert hosts.read().available
    assert hosts.in_pool() == {'cn1', 'cn2'}


@pytest.mark.parametrize('state', [State.ENROLLING, State.NOT_ENROLLED])
def test_refused_repeat_of_an_enrolment_that_was_cut_off_gives_the_host_back(
    hosts, monkeypatch, state
):
    """It was killed between its row and its mark; then an ordinary server came."""
    node = hypervisors.add(hosts.state, 'cn3')
    with monkeypatch.context() as killed:
        killed.setattr(isolation, 'update_isolation', lambda *_args: sys.exit())
        with pytest.raises(SystemExit):
            enrol(hosts)
    host_id = hosts.database.read(db.find, 'cn3').id
    hosts.database.write(db.HOSTS.update, host_id, {}, {'state': state})
    server_id = str(uuid.uuid4())
    fake_placement.add_server(hosts.state, node['id'], server_id)
    HostRefresher(hosts.conf, hosts.database, hosts.cloud).refresh()
    assert hosts.in_pool() == {'cn1', 'cn2'}

    isolation.update_isolation(hosts.database, hosts.conn, node['id'])
    with pytest.raises(exceptions.HostInUse, match=server_id):
        enrol(hosts)
    assert hosts.database.read(db.find, 'cn3') is None
    assert hosts.in_pool() == {'cn1', 'cn2'}


def test_removal_that_is_refused_leaves_what_others_do_meanwhile(hosts, meanwhile):
    """Another request is taking the host out that its operator has disabled since it was read."""
    server_id = str(uuid.uuid4())
    host_id, root = hosts.ids[0], hosts.read().provider_id
    fake_placement.add_server(hosts.state, root, server_id)

    def disable_and_retire():
        hosts.operations.update_host(
            hosts.context, host_id, {'available': False, 'disabled_reason': 'disk'}
        )
        hosts.database.write(operations_hosts._mark_leaving, host_id)

    meanwhile(0, root, disable_and_retire)
    with pytest.raises(exceptions.HostInUse, match=server_id):
        hosts.operations.delete_host(hosts.context, host_id)
    assert (hosts.read().state, hosts.read().available) == (State.LEAVING, False)
    # Repeated, it is refused, and the host stays as its operator wants it.
    with pytest.raises(exceptions.HostInUse, match=server_id):
        hosts.operations.delete_host(hosts.context, host_id)
    assert (hosts.read().state, hosts.read().available) == (State.ENROLLED, False)


def lose_answer(hosts, monkeypatch):
    """Let the connection break when the end of an enrolment has been committed."""
    write = hosts.database.write

    def lose(function, *args):
        result = write(function, *args)
        if function is enrolment._complete:
            raise db_exc.DBConnectionError
        return result

    monkeypatch.setattr(hosts.database, 'write', lose)


def test_lost_answer_of_the_database_does_not_matter(hosts, monkeypatch):
    hypervisors.add(hosts.state, 'cn3')
    lose_answer(hosts, monkeypatch)
    assert enrol(hosts) == 3
    assert hosts.database.read(db.HOSTS.get, 3).available


def test_host_that_is_not_written_is_given_back(hosts, monkeypatch):
    hypervisors.add(hosts.state, 'cn3')

    def fail(*_args):
        raise db_exc.DBError

    monkeypatch.setattr(enrolment, '_complete', fail)
    with pytest.raises(db_exc.DBError):
        enrol(hosts)
    assert hosts.in_pool() == {'cn1', 'cn2'}
    assert hosts.database.read(db.find, 'cn3') is None


def test_what_cannot_be_given_back_is_told_to_the_operator(hosts, caplog):
    hypervisors.add(hosts.state, 'cn3')

    def fail(_seconds):
        fault = {'method': 'GET', 'path': '', 'status': 503, 'count': 2}
        hosts.state.faults.append(fault)

    hosts.operations.pause = fail
    with pytest.raises(exceptions.ServiceUnavailable):
        enrol(hosts)
    assert 'cn3 was not enrolled, and may be kept from ordinary servers' in caplog.text
    found = hosts.database.read(db.find, 'cn3')
    assert (found.available, found.state) == (False, State.NOT_ENROLLED)
    leave(hosts)
    assert hosts.in_pool() == {'cn1', 'cn2'}


def test_nodes_of_ironic_have_one_lane(hosts):
    hypervisors.add(hosts.state, 'node1', hypervisor_type='ironic')
    host = hosts.database.read(db.HOSTS.get, enrol(hosts, 'node1'))
    assert len(host.lane_ids) == 1


@pytest.fixture
def emptied(hosts):
    """Make a host of which servers may be left, but that has none."""
    hosts.conf.register_opts(manager.QUEUE_OPTS, group=manager.QUEUE_GROUP)
    hypervisors.add(hosts.state, 'cn3')
    enrol(hosts, empty=True)
    return hosts.database.read(db.find, 'cn3')


def assert_is_emptied(hosts, host):
    assert hosts.database.read(db.find, 'cn3') == host
    assert (host.state, host.is_draining) == (State.EMPTYING, True)
    assert hosts.in_pool() == {'cn1', 'cn2', 'cn3'}


def test_request_for_a_host_that_is_being_emptied_has_it_emptied_further(
    hosts, emptied, monkeypatch
):
    """Nova is moving a server of it, so that it could not be chosen to be emptied now."""
    server = RunningServer(id='moved', amounts={}, status=draining.MOVING, obstacle='moving')
    made = CandidateHost(id=emptied.id, name='cn3', servers=[server])
    monkeypatch.setattr(draining, 'read_candidate', lambda *_args: made)
    assert enrol(hosts, empty=True) == emptied.id
    assert_is_emptied(hosts, emptied)
    for values in ({}, {'shared': True}, {'empty': True, 'pool': 'gpu'}):
        with pytest.raises(exceptions.HostChanging, match='cn3 is being drained'):
            enrol(hosts, **values)
        assert_is_emptied(hosts, emptied)
    with pytest.raises(exceptions.HostChanging, match='cn3 is being drained'):
        enrol(hosts, empty=True, extra={'rack': '7'})
    leave(hosts)
    assert hosts.in_pool() == {'cn1', 'cn2'}


@pytest.mark.parametrize('values', [{}, {'empty': True}])
def test_enrolment_that_another_request_ends_meanwhile_is_not_given_up(
    hosts, emptied, monkeypatch, values
):
    """Its row was found half enrolled; by the time the request is refused it is emptied."""
    hosts.database.write(db.HOSTS.update, emptied.id, {}, {'state': State.ENROLLING})

    def refuse(*_args, **_kw):
        hosts.database.write(db.HOSTS.update, emptied.id, {}, {'state': State.EMPTYING})
        raise exceptions.HostInUse

    monkeypatch.setattr(enrolment, '_check_ready', refuse)
    with pytest.raises(exceptions.HostInUse):
        enrol(hosts, **values)
    assert_is_emptied(hosts, hosts.database.read(db.HOSTS.get, emptied.id))


def test_enrolment_that_another_request_ends_meanwhile_is_not_begun_anew(
    hosts, emptied, monkeypatch
):
    hosts.database.write(db.HOSTS.update, emptied.id, {}, {'state': State.ENROLLING})

    def check(*_args, **_kw):
        hosts.database.write(db.HOSTS.update, emptied.id, {}, {'state': State.EMPTYING})

    monkeypatch.setattr(enrolment, '_check_ready', check)
    with pytest.raises(exceptions.HostChanging, match='cn3 is being drained'):
        enrol(hosts, empty=True)
    assert_is_emptied(hosts, hosts.database.read(db.HOSTS.get, emptied.id))


def test_lost_answer_of_the_database_keeps_a_host_that_is_emptied(hosts, emptied, monkeypatch):
    leave(hosts)
    lose_answer(hosts, monkeypatch)
    host_id = enrol(hosts, empty=True)
    assert_is_emptied(hosts, hosts.database.read(db.HOSTS.get, host_id))
