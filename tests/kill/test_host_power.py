# SPDX-License-Identifier: Apache-2.0
"""A manager dies while it puts a host to sleep, or wakes it; a tool that is told switches it."""

import pytest

from climate_core.cloud import servers
from climate_hosts import placement
from climate_hosts.power.states import DISABLED_REASON, PowerState
from tests.kill.deaths import WRITE, check_no_error, check_told_once, die
from tests.kill.pools import Pool
from tests.support.databases import ENGINES

SERVERS = [each for each in ENGINES if each != 'sqlite']

_POWER = """
[power]
driver = notify
notify_url = {url}/fake/power
interval = 0.2
min_awake = 0
"""


class SleepingPool(Pool):
    """The host cn1, which managers put to sleep."""

    def __init__(self, stage):
        with stage.config.open('a', encoding='utf-8') as file:
            file.write(_POWER.format(url=stage.cloud.url))
        super().__init__(stage, 'cn1')

    @property
    def power(self):
        return self.find('cn1').power

    def service(self):
        """Return the status of the nova-compute, and why it is so."""
        found = servers.list_compute_services(self.conn)['cn1']
        return found['status'], found['disabled_reason']

    def consumers(self):
        return placement.list_consumers(self.conn, self.find('cn1').provider_id)

    def switched(self):
        """Return how the machine was switched, in order."""
        told = [entry['what'] for entry in self.stage.cloud.journal()]
        return [each for each in told if each.startswith('power ')]

    def sleep(self):
        self.stage.manager()
        self.stage.until(lambda: self.power is PowerState.ASLEEP)
        self.stage.kill_all()


@pytest.mark.parametrize('stage', SERVERS, indirect=True)
def test_putting_a_host_to_sleep(stage):
    pool = SleepingPool(stage)
    die(
        stage,
        # That it is put to sleep is written.
        'commit.before:host-power:1',
        # It is held; its nova-compute is disabled; it is switched off.
        *[f'{WRITE}1'] * 3,
        # That it sleeps is written.
        'commit.before:power_0:1',
    )
    stage.until(lambda: pool.power is PowerState.ASLEEP)
    assert pool.switched() == ['power off']
    assert (pool.service(), len(pool.consumers())) == (('disabled', DISABLED_REASON), 1)
    for state in ('falling_asleep', 'asleep'):
        check_told_once(stage, f'host.power.{state}')


@pytest.mark.parametrize('stage', SERVERS, indirect=True)
def test_waking_a_host_for_a_lease(stage):
    pool = SleepingPool(stage)
    pool.sleep()
    lease = pool.lease(1)
    die(
        stage,
        # That it is woken is written.
        'commit.before:host-power:1',
        # It is switched on, by each again; it is no longer held; its nova-compute is enabled.
        f'{WRITE}1',
        *[f'{WRITE}2'] * 2,
        # That it is awake is written.
        'commit.before:power_0:1',
    )
    stage.until(lambda: stage.lease(lease).status == 'ACTIVE')
    check_no_error(stage.lease(lease))
    assert pool.power is None
    off, *on = pool.switched()
    assert (off, {*on}) == ('power off', {'power on'})
    assert (pool.service(), pool.consumers()) == (('enabled', None), [])
    assert pool.open() == {'cn1'}
    for state in ('waking', 'awake'):
        check_told_once(stage, f'host.power.{state}')


@pytest.mark.parametrize('stage', SERVERS, indirect=True)
def test_host_with_a_server_is_given_up(stage):
    """A server came when it was written already that the host is put to sleep."""
    pool = SleepingPool(stage)
    stage.manager(f'{WRITE}1').dies()
    stage.cloud.order(
        'claims',
        [
            {
                'hypervisor_id': pool.find('cn1').provider_id,
                'server_id': stage.cloud.servers(1, status='ACTIVE')[0],
            }
        ],
    )
    # What was held is given back; that it stays awake is written.
    die(stage, f'{WRITE}1', 'commit.before:power_0:1')
    stage.until(lambda: pool.power is None)
    assert (pool.switched(), len(pool.consumers())) == ([], 1)
    assert pool.service() == ('enabled', None)


@pytest.mark.parametrize('stage', SERVERS, indirect=True)
def test_two_managers_put_a_host_to_sleep_and_wake_it(stage):
    pool = SleepingPool(stage)
    stage.manager()
    stage.manager()
    stage.until(lambda: pool.power is PowerState.ASLEEP)
    stage.kill_all()
    lease = pool.lease(1)
    stage.manager()
    stage.manager()
    stage.until(lambda: stage.lease(lease).status == 'ACTIVE')
    check_no_error(stage.lease(lease))
    assert (pool.power, pool.service(), pool.consumers()) == (None, ('enabled', None), [])
    assert {*pool.switched()} == {'power off', 'power on'}
    for state in ('falling_asleep', 'asleep', 'waking', 'awake'):
        check_told_once(stage, f'host.power.{state}')
