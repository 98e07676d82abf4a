# SPDX-License-Identifier: Apache-2.0
import uuid

import pytest

from climate_hosts.db import hosts as db
from climate_hosts.watch.refresh import HostRefresher
from tests.support import pools
from tests.support.fakes import leases


@pytest.fixture
def refresher(hosts):
    return HostRefresher(hosts.conf, hosts.database, hosts.cloud)


def test_what_changed_is_written_and_nothing_else(hosts, refresher):
    hosts.hypervisor().update(vcpus=128, state='down')
    before, other = hosts.generation(), hosts.generation(1)
    refresher.refresh()
    refresher.refresh()
    assert (hosts.read().details['vcpus'], hosts.read().details['state']) == (128, 'down')
    assert (hosts.generation(), hosts.generation(1)) == (before + 1, other)


def test_four_requests_for_all_hosts(hosts, refresher):
    hosts.state.requests.clear()
    refresher.refresh()
    asked = [path for _, path, _ in hosts.state.requests if 'identity' not in path]
    assert len(asked) == 4


def test_no_request_where_no_pool_has_a_host(hosts, tmp_path):
    empty = leases.sqlite(tmp_path / 'empty.sqlite')
    hosts.state.requests.clear()
    HostRefresher(hosts.conf, empty, hosts.cloud).refresh()
    assert not hosts.state.requests
    empty.dispose()


def test_lost_mark_is_put_back(hosts, refresher, caplog):
    pools.isolate(hosts.conn, hosts.read().provider_id, False)
    refresher.refresh()
    assert hosts.in_pool() == {'cn1', 'cn2'}
    assert 'cn1 was not isolated from ordinary servers' in caplog.text


def test_mark_of_a_host_that_leaves_is_not_put_back(hosts, refresher):
    host = hosts.read()
    hosts.state.faults.append(
        {'method': 'PUT', 'path': 'aggregates', 'status': 503, 'count': 1, 'after': True}
    )
    with pytest.raises(Exception, match='503'):
        hosts.operations.delete_host(hosts.context, host.id)
    pools.isolate(hosts.conn, host.provider_id, False)
    refresher.refresh()
    assert hosts.in_pool() == {'cn2'}


def test_host_that_placement_lost_is_told_once(hosts, refresher, caplog):
    host = hosts.read()
    hosts.database.write(db.HOSTS.update, host.id, {}, {'provider_id': str(uuid.uuid4())})
    for _ in range(2):
        refresher.refresh()
    assert caplog.text.count('Host cn1 is not in Placement as it was enrolled') == 1


def test_refresher_waits_for_the_interval(hosts, refresher):
    assert refresher.poll() == pytest.approx(hosts.conf.hosts.refresh_interval, rel=0.11)
