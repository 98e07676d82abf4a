# SPDX-License-Identifier: Apache-2.0
"""Hosts of the pool sleep until a lease needs them.

Their machines are those of sushy-tools' Redfish emulator. What runs on a machine is its
nova-compute: it is killed when the machine is switched off, and started when it is switched on.
"""

import contextlib
import datetime
import json
import os
import pathlib
import signal
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from climate_hosts.power.states import DISABLED_REASON
from tests.cloud.booking import Booking
from tests.cloud.hearing import Hearing
from tests.cloud.people import CONF, STATE, Person, at, cloud, configured, wait_for
from tests.cloud.pooling import POOL, boot, enrolled, host_of, hosts_of, make_lease
from tests.support import redfish

#: Each host that nothing is promised of sleeps meanwhile.
pytestmark = pytest.mark.alone

SERVICES = ('climate-manager', 'climate-api')
#: Seconds between two looks at the machines.
LOOK = 1
#: A machine of the emulator needs up to 11 seconds, and a nova-compute about as many.
POWER = """
[power]
driver = redfish
machines_file = {machines}
interval = 2
sleep_after = 5
wake_seconds = 40
wake_slack = 20
min_awake = 0
min_cycle = 0
watts = 200
"""


class Machines:
    """The machines of the pool: a nova-compute runs where its machine is on."""

    def __init__(self, emulator: redfish.Emulator) -> None:
        self._emulator = emulator
        self._runs = dict.fromkeys(POOL, True)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def switch_on(self, host: str) -> None:
        """Switch a machine on as a person does, who asks its controller."""
        path = f'{self._emulator.path(host)}/Actions/ComputerSystem.Reset'
        answer = requests.post(
            f'{self._emulator.url}{path}',
            json={'ResetType': 'On'},
            auth=(redfish.USER, redfish.PASSWORD),
            timeout=30,
        )
        answer.raise_for_status()

    def close(self) -> None:
        """Watch no more, and start what does not run."""
        self._over.set()
        self._thread.join()
        for host, runs in self._runs.items():
            if not runs:
                cloud('restart', f'nova-{host}')

    def _watch(self) -> None:
        while not self._over.wait(LOOK):
            for host in POOL:
                is_on = self._emulator.is_on(host)
                if is_on and not self._runs[host]:
                    cloud('restart', f'nova-{host}')
                elif self._runs[host] and not is_on:
                    process, _ = (STATE / 'run' / f'nova-{host}.pid').read_text().split()
                    os.kill(int(process), signal.SIGKILL)
                self._runs[host] = is_on


def keep_on(admin: Person) -> None:
    """Have all hosts of the pool stay awake, and wait until they are."""
    for each in enrolled(admin).values():
        admin.client.hosts.update(each.id, kept_on=True)
    wait_for(lambda: {each.power for each in enrolled(admin).values()} == {'awake'}, 'all awake')


@pytest.fixture
def machines(admin: Person, tmp_path: pathlib.Path) -> Iterator[Machines]:
    """Return machines that are on; lease services that are started now put their hosts to sleep.

    Afterwards all is as it was.
    """
    text = CONF.read_text()
    with redfish.running(tmp_path, *POOL) as emulator, contextlib.ExitStack() as undo:
        made = Machines(emulator)
        undo.callback(made.close)
        file = tmp_path / 'machines.conf'
        emulator.machines(file)
        undo.callback(restore, admin, text)
        CONF.write_text(text + POWER.format(machines=file))
        yield made


def restore(admin: Person, text: str) -> None:
    """Wake all hosts, and run lease services that let them be."""
    try:
        keep_on(admin)
    finally:
        CONF.write_text(text)
        cloud('restart', *SERVICES)
        for each in enrolled(admin).values():
            admin.client.hosts.update(each.id, kept_on=False)


def computes(admin: Person) -> dict[str, tuple[str, str, str | None]]:
    """Return how Nova sees the hosts of the pool: state, status, and why it is so."""
    found = admin.sdk.compute.services(binary='nova-compute')
    return {
        each.host: (each.state, each.status, each.disabled_reason)
        for each in found
        if each.host in POOL
    }


def shown(admin: Person, *command: str) -> dict[str, dict[str, Any]]:
    """Return the rows of a command of hosts, by the name of the host."""
    done = admin.cli('openstack', 'lease', 'host', *command, '-f', 'json')
    assert done.returncode == 0, done.stderr
    return {row.get('Name', row.get('Host')): row for row in json.loads(done.stdout)}


def measured(power: str) -> float:
    """Return how many hosts are in a power state, as the metrics of the manager say."""
    url = f'http://{configured("metrics", "listen")}/metrics'
    text = urllib.request.urlopen(url, timeout=10).read().decode()
    name = f'climate_hosts_power{{power="{power}"}} '
    return float(next(line for line in text.splitlines() if line.startswith(name)).split()[-1])


@pytest.mark.usefixtures('pool')
def test_hosts_sleep_until_a_lease_or_a_person_wants_them(
    admin: Person, machines: Machines, booking: Booking, bus: Hearing
) -> None:
    begun = at()
    wanted = {'resource_type': 'physical:host', 'min': 1}
    lease = make_lease(booking, wanted, start=at(hours=1), end=at(hours=2))
    (host,) = hosts_of(lease)
    (other,) = {*POOL} - {host}
    cloud('restart', *SERVICES)

    # Nobody needs them now: also the one that is promised for later sleeps.
    wait_for(lambda: {each.power for each in enrolled(admin).values()} == {'asleep'}, 'all asleep')
    assert {row['Power'] for row in shown(admin, 'list').values()} == {'asleep'}
    assert {*computes(admin).values()} == {('down', 'disabled', DISABLED_REASON)}
    wait_for(lambda: measured('asleep') == len(POOL), 'hosts that sleep in the metrics')

    # Its lease wakes the one, before it begins.
    booking.person.leases.update(lease.id, start=at(seconds=65))
    wait_for(lambda: enrolled(admin)[host].power == 'awake', f'{host} awake')
    # A person switches the other one on.
    machines.switch_on(other)
    lease = booking.wait_lease(lease.id, 'ACTIVE')
    assert (hosts_of(lease), lease.status_reason) == ([host], None)
    states, times = zip(*bus.power_of(host), strict=True)
    assert states == ('falling_asleep', 'asleep', 'waking', 'awake')
    awake = datetime.datetime.fromisoformat(times[-1]).replace(tzinfo=datetime.UTC)
    assert awake <= lease.start_date
    (reservation,) = lease.reservations
    server = boot(booking, reservation=reservation.id)
    assert (server.status, host_of(admin, server.id)) == ('ACTIVE', host)

    wait_for(lambda: enrolled(admin)[other].power == 'awake', f'{other} awake')
    assert enrolled(admin)[other].kept_on
    assert not enrolled(admin)[host].kept_on
    assert {*computes(admin).values()} == {('up', 'enabled', None)}
    usage = shown(admin, 'usage', '--start', begun)
    assert {*usage} == {*POOL}
    assert all(row['Hours powered off'] > 0 and row['kWh saved'] > 0 for row in usage.values())
    # What is freed would sleep again.
    keep_on(admin)
    assert [state for state, _ in bus.power_of(other)][-2:] == ['waking', 'awake']
