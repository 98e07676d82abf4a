# SPDX-License-Identifier: Apache-2.0
"""What each driver of ``[power]`` must do."""

import http.server
import json
import threading

import pytest

from climate_core import conf as config
from climate_core.cloud.power import base
from climate_core.cloud.power.notify import NotifyDriver
from tests.support.fakes import cloud_server, hypervisors
from tests.support.machines import FakeMachines


class Bench:
    """A driver and a machine that is on.

    :ivar name: of the machine
    """

    name = 'cn1'

    def __init__(self, tmp_path):
        self.conf = config.load([], [])

    def is_on(self):
        """Tell whether the machine is on, as it is seen beside the driver."""
        raise NotImplementedError

    def silence(self):
        """Have the machine not answer any more."""
        raise NotImplementedError

    def close(self):
        """End what was started."""


class FakeBench(Bench):
    """Machines of a fake cloud, which other tests use."""

    def __init__(self, tmp_path):
        super().__init__(tmp_path)
        self._running = cloud_server.running(tmp_path / 'journal')
        self.state = self._running.__enter__().state
        hypervisors.add(self.state, self.name)
        self.driver = FakeMachines(self.conf, self.state)

    def is_on(self):
        (found,) = self.state.hypervisors.values()
        return found['state'] == 'up'

    def silence(self):
        self.driver.silent.add(self.name)

    def close(self):
        self._running.__exit__(None, None, None)


class _Tool(http.server.BaseHTTPRequestHandler):
    """A tool of others that switches machines."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        self.server.told.append(body)
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_args):
        """Write nothing."""


class NotifyBench(Bench):
    """A tool that is told.

    :ivar told: what it was sent
    """

    def __init__(self, tmp_path):
        super().__init__(tmp_path)
        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), _Tool)
        self.server.told, self.server.status = [], 200
        self._thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self._thread.start()
        url = f'http://127.0.0.1:{self.server.server_port}/?token=secret'
        self.conf.set_override('notify_url', url, group='power')
        self.seconds = 0.0
        self.driver = NotifyDriver(self.conf, lambda: self.seconds)

    def is_on(self):
        told = [each['power'] for each in self.server.told]
        assert {each['hypervisor_hostname'] for each in self.server.told} <= {self.name}
        return told[-1:] != ['off']

    def silence(self):
        self.server.status = 500

    def close(self):
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


BENCHES = (FakeBench, NotifyBench)


@pytest.fixture(params=BENCHES, ids=lambda each: each.__name__)
def bench(request, tmp_path):
    made = request.param(tmp_path)
    yield made
    made.close()


def test_machine_is_switched_off_and_on(bench):
    assert bench.driver.knows(bench.name)
    assert bench.driver.is_on(bench.name) is not False
    bench.driver.switch_off(bench.name, False)
    assert not bench.is_on()
    assert bench.driver.is_on(bench.name) is not True
    bench.driver.switch_on(bench.name)
    assert bench.is_on()
    assert bench.driver.is_on(bench.name) is not False


@pytest.mark.parametrize('force', [False, True])
def test_machine_that_is_so_already_is_fine(bench, force):
    for _ in range(2):
        bench.driver.switch_off(bench.name, force)
    assert not bench.is_on()
    for _ in range(2):
        bench.driver.switch_on(bench.name)
    assert bench.is_on()


def test_machine_that_does_not_answer_is_trouble_without_secrets(bench):
    bench.silence()
    with pytest.raises(base.PowerTrouble) as told:
        bench.driver.switch_off(bench.name, False)
    assert 'secret' not in str(told.value)


def test_tool_is_told_again_after_a_minute(tmp_path):
    bench = NotifyBench(tmp_path)
    bench.driver.switch_off('cn1', False)
    bench.seconds = 59.0
    bench.driver.switch_off('cn1', False)
    assert len(bench.server.told) == 1
    bench.seconds = 60.0
    bench.driver.switch_off('cn1', False)
    bench.driver.switch_on('cn1')
    assert [each['power'] for each in bench.server.told] == ['off', 'off', 'on']
    bench.close()


def test_tool_without_an_address_is_told_by_notifications_alone():
    driver = NotifyDriver(config.load([], []))
    driver.switch_off('cn1', False)
    assert driver.is_on('cn1') is None


def test_tool_that_is_not_there_is_trouble_without_secrets(tmp_path):
    bench = NotifyBench(tmp_path)
    bench.close()
    with pytest.raises(base.PowerTrouble) as told:
        bench.driver.switch_on('cn1')
    assert str(told.value) == '[power] notify_url: ConnectionError'


def test_driver_that_is_not_installed_is_refused():
    conf = config.load([], [])
    conf.set_override('driver', 'horses', group='power')
    with pytest.raises(base.BadPowerSettings, match=r'\[power\] driver: horses cannot be loaded'):
        base.load(conf)
    conf.set_override('driver', 'notify', group='power')
    assert isinstance(base.load(conf), NotifyDriver)
