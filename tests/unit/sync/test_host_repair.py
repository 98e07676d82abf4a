# SPDX-License-Identifier: Apache-2.0
import uuid

import pytest

from climate_core.cloud import placement
from climate_core.db import hosts as db
from climate_core.sync import host_repair
from tests.support.fakes import hypervisors


@pytest.fixture
def repair(hosts):
    """Returns a function that says, and then repairs, what is wrong."""

    def run():
        paused = []
        said = list(host_repair.HostRepair(hosts.database, hosts.conn, False, paused.append).run())
        assert not paused
        assert not any(each.done for each in said)
        done = list(host_repair.HostRepair(hosts.database, hosts.conn, True, paused.append).run())
        assert [(each.what, each.wrong) for each in done] == [(x.what, x.wrong) for x in said]
        return done

    return run


def test_nothing_is_wrong(hosts, repair):
    assert repair() == []
    hosts.operations.delete_host(hosts.context, hosts.ids[0])
    assert repair() == []


def test_mark_without_a_host_is_removed(hosts, repair):
    stray = hypervisors.add(hosts.state, 'cn3')
    placement.add_to_pool(hosts.conn, stray['id'])
    (found,) = repair()
    assert (found.what, found.done) == (stray['id'], True)
    assert 'no pool has the host cn3' in found.wrong
    assert hosts.in_pool() == {'cn1', 'cn2'}


def test_mark_of_a_host_that_is_being_enrolled_stays(hosts):
    stray = hypervisors.add(hosts.state, 'cn3')
    placement.add_to_pool(hosts.conn, stray['id'])

    def pause(_seconds):
        hosts.operations.create_host(hosts.context, {'name': 'cn3'})

    assert not list(host_repair.HostRepair(hosts.database, hosts.conn, True, pause).run())
    assert hosts.in_pool() == {'cn1', 'cn2', 'cn3'}


def test_host_without_its_mark_gets_it(hosts, repair):
    placement.remove_from_pool(hosts.conn, hosts.read().provider_id)
    (found,) = repair()
    assert (found.what, found.action, found.done) == ('cn1', 'keep them off', True)
    assert hosts.in_pool() == {'cn1', 'cn2'}


def test_open_lane_of_no_host_is_closed(hosts, repair):
    lane_id = hosts.read().lane_ids[2]
    hosts.operations.delete_host(hosts.context, hosts.ids[0])
    placement.set_lane_aggregates(hosts.conn, lane_id, [str(uuid.uuid4())])
    (found,) = repair()
    assert (found.what, found.done) == ('climate-2-cn1', True)
    assert not placement.is_open(hosts.conn, lane_id)


@pytest.mark.parametrize(
    ('changes', 'wrong'),
    [
        ({'provider_id': str(uuid.uuid4())}, 'Placement has it no more'),
        ({'lane_ids': [str(uuid.uuid4())]}, '1 of its 1 lanes are not in Placement'),
    ],
)
def test_what_a_person_has_to_judge(hosts, repair, changes, wrong):
    hosts.database.write(db.update, hosts.ids[0], {}, changes)
    found = {each.what: each for each in repair()}
    assert wrong in found['cn1'].wrong
    assert found['cn1'].action is None


def test_host_that_was_being_taken_out_is_left_to_its_operator(hosts, repair):
    fault = {'method': 'PUT', 'path': 'aggregates', 'status': 503, 'count': 1}
    hosts.state.faults.append(fault)
    with pytest.raises(Exception, match='503'):
        hosts.operations.delete_host(hosts.context, hosts.ids[0])
    placement.remove_from_pool(hosts.conn, hosts.read().provider_id)
    (found,) = repair()
    assert (found.what, found.action) == ('cn1', None)


def test_what_fails_is_told_and_the_rest_is_done(hosts):
    for number in (0, 1):
        placement.remove_from_pool(hosts.conn, hosts.read(number).provider_id)
    hosts.state.faults.append({'method': 'PUT', 'path': 'aggregates', 'status': 503, 'count': 1})
    found = list(host_repair.HostRepair(hosts.database, hosts.conn, True, lambda _: None).run())
    assert sorted(each.done for each in found) == [False, True]
    assert len(hosts.in_pool()) == 1
