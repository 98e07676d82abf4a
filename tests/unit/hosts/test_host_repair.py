# SPDX-License-Identifier: Apache-2.0
import uuid

import pytest

from climate_core import exceptions
from climate_core.cloud.placement import PLACEMENT
from climate_hosts import lane_providers, placement
from climate_hosts.db import hosts as db
from climate_hosts.watch import repair as host_repair
from tests.support import pools
from tests.support.fakes import hypervisors


@pytest.fixture
def repair(hosts):
    """Return a function that says, and then repairs, what is wrong."""

    def run():
        said = list(host_repair.HostRepair(hosts.database, hosts.conn, False).run())
        assert not any(each.done for each in said)
        done = list(host_repair.HostRepair(hosts.database, hosts.conn, True).run())
        assert [(each.what, each.wrong) for each in done] == [(x.what, x.wrong) for x in said]
        return done

    return run


def test_repair_of_sound_hosts_does_nothing(hosts, repair):
    assert repair() == []
    hosts.operations.delete_host(hosts.context, hosts.ids[0])
    assert repair() == []


def test_mark_without_a_host_is_removed(hosts, repair):
    stray = hypervisors.add(hosts.state, 'cn3')
    pools.isolate(hosts.conn, stray['id'])
    (found,) = repair()
    assert (found.what, found.done) == (stray['id'], True)
    assert 'no pool has the host cn3' in found.wrong
    assert hosts.in_pool() == {'cn1', 'cn2'}


def test_enrolment_that_was_cut_off_is_left_to_its_operator(hosts, repair):
    hypervisors.add(hosts.state, 'cn3')
    fault = {'method': 'PUT', 'path': 'aggregates', 'status': 503, 'count': 2}
    hosts.state.faults.append(fault)
    with pytest.raises(exceptions.ServiceUnavailable):
        hosts.operations.create_host(hosts.context, {'name': 'cn3'})
    (found,) = repair()
    assert (found.what, found.action) == ('cn3', None)
    hosts.operations.create_host(hosts.context, {'name': 'cn3'})
    assert repair() == []
    assert hosts.in_pool() == {'cn1', 'cn2', 'cn3'}


def test_host_without_its_mark_gets_it(hosts, repair):
    pools.isolate(hosts.conn, hosts.read().provider_id, False)
    (found,) = repair()
    assert (found.what, found.action, found.done) == ('cn1', 'keep them off', True)
    assert hosts.in_pool() == {'cn1', 'cn2'}


def test_open_lane_of_no_host_is_closed(hosts, repair):
    lane_id = hosts.read().lane_ids[2]
    hosts.operations.delete_host(hosts.context, hosts.ids[0])
    lane_providers.set_lane_aggregates(hosts.conn, lane_id, [str(uuid.uuid4())])
    (found,) = repair()
    assert (found.what, found.done) == ('climate-2-cn1', True)
    assert not lane_providers.is_open(hosts.conn, lane_id)


@pytest.mark.parametrize('open_to_unreserved', [None, True])
def test_host_that_placement_has_no_more_is_left_to_its_operator(
    hosts, repair, open_to_unreserved
):
    lost = {
        'provider_id': str(uuid.uuid4()),
        'lane_ids': [str(uuid.uuid4())],
        'open_to_unreserved': open_to_unreserved,
    }
    hosts.database.write(db.HOSTS.update, hosts.ids[0], {}, lost)
    (found,) = [each for each in repair() if each.what == 'cn1']
    assert 'Placement does not have it any more' in found.wrong
    assert found.action is None


def test_lanes_that_placement_has_no_more_are_made_anew(hosts, repair):
    host = hosts.read()
    for lane_id in host.lane_ids[1:3]:
        PLACEMENT.request(hosts.conn, 'DELETE', f'/resource_providers/{lane_id}')
    (found,) = repair()
    assert (found.what, found.action, found.done) == ('cn1', 'recreate them', True)
    assert '2 of its 4 lanes are not in Placement' in found.wrong
    assert hosts.read().lane_ids == host.lane_ids
    rooms = placement.read_host_capacities(hosts.conn, host.provider_id)[host.provider_id]
    assert rooms.lanes.keys() == {*host.lane_ids}
    assert not rooms.open_lanes
    assert repair() == []


def test_lane_that_is_there_by_another_id_is_found(hosts, repair):
    lane_ids = hosts.read().lane_ids
    others = [*lane_ids[:-1], str(uuid.uuid4())]
    hosts.database.write(db.HOSTS.update, hosts.ids[0], {}, {'lane_ids': others})
    (found,) = repair()
    assert found.done
    assert hosts.read().lane_ids == lane_ids


def test_host_that_was_being_taken_out_is_left_to_its_operator(hosts, repair):
    fault = {'method': 'PUT', 'path': 'aggregates', 'status': 503, 'count': 1}
    hosts.state.faults.append(fault)
    with pytest.raises(Exception, match='503'):
        hosts.operations.delete_host(hosts.context, hosts.ids[0])
    pools.isolate(hosts.conn, hosts.read().provider_id, False)
    (found,) = repair()
    assert (found.what, found.action) == ('cn1', None)


def test_what_fails_is_told_and_the_rest_is_done(hosts):
    for number in (0, 1):
        pools.isolate(hosts.conn, hosts.read(number).provider_id, False)
    hosts.state.faults.append({'method': 'PUT', 'path': 'aggregates', 'status': 503, 'count': 1})
    found = list(host_repair.HostRepair(hosts.database, hosts.conn, True).run())
    assert sorted(each.done for each in found) == [False, True]
    assert len(hosts.in_pool()) == 1
