# SPDX-License-Identifier: Apache-2.0
"""What each driver of ``[power]`` must do."""

import http.server
import json
import re
import threading
from unittest import mock

import pytest
import requests
import sushy

from climate_core import conf as config
from climate_hosts.power import drivers
from climate_hosts.power.drivers import Machine, MachinesFile, NotifyDriver
from climate_hosts.power.ipmi import IpmiDriver
from climate_hosts.power.redfish import RedfishDriver, RedfishMachine
from tests.support import ipmi, redfish
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


class RedfishBench(Bench):
    """An emulator of management controllers."""

    def __init__(self, tmp_path):
        super().__init__(tmp_path)
        self._running = redfish.running(tmp_path, self.name, 'cn2')
        self.emulator = self._running.__enter__()
        self.file = tmp_path / 'machines.conf'
        self.emulator.machines(self.file)
        self.conf.set_override('machines_file', str(self.file), group='power')
        self.driver = RedfishDriver(self.conf)

    def is_on(self):
        return self.emulator.is_on(self.name)

    def silence(self):
        self.emulator.stop()

    def close(self):
        self._running.__exit__(None, None, None)


class IpmiBench(Bench):
    """Management controllers that speak IPMI."""

    def __init__(self, tmp_path):
        super().__init__(tmp_path)
        self._running = ipmi.running(tmp_path, self.name)
        self.emulator = self._running.__enter__()
        file = tmp_path / 'machines.conf'
        self.emulator.machines(file)
        self.conf.set_override('machines_file', str(file), group='power')
        self.driver = IpmiDriver(self.conf)

    def is_on(self):
        return self.emulator.is_on(self.name)

    def silence(self):
        self.emulator.stop()
        self.driver = IpmiDriver(self.conf, answer_seconds=1, retries=1)

    def close(self):
        self._running.__exit__(None, None, None)


BENCHES = (FakeBench, NotifyBench, RedfishBench, IpmiBench)


@pytest.fixture(params=BENCHES, ids=lambda each: each.__name__)
def bench(request, tmp_path):
    made = request.param(tmp_path)
    yield made
    made.close()


def test_machine_is_switched_off_and_on(bench):
    assert bench.driver.knows(bench.name)
    assert bench.driver.is_on(bench.name) is not False
    bench.driver.switch_off(bench.name, False)
    redfish.until(lambda: not bench.is_on())
    assert bench.driver.is_on(bench.name) is not True
    bench.driver.switch_on(bench.name)
    redfish.until(bench.is_on)
    assert bench.driver.is_on(bench.name) is not False


@pytest.mark.parametrize('force', [False, True])
def test_machine_that_is_so_already_is_fine(bench, force):
    for _ in range(2):
        bench.driver.switch_off(bench.name, force)
        redfish.until(lambda: not bench.is_on())
    for _ in range(2):
        bench.driver.switch_on(bench.name)
        redfish.until(bench.is_on)


def test_machine_that_does_not_answer_is_trouble_without_secrets(bench):
    bench.silence()
    for switch in (
        lambda: bench.driver.switch_off(bench.name, False),
        lambda: bench.driver.switch_on(bench.name),
    ):
        with pytest.raises(drivers.PowerError) as told:
            switch()
        assert 'secret' not in str(told.value)
        assert '127.0.0.1' not in str(told.value)


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
    with pytest.raises(drivers.PowerError) as told:
        bench.driver.switch_on('cn1')
    assert str(told.value) == '[power] notify_url: ConnectionError'


def test_driver_that_is_not_installed_is_refused():
    conf = config.load([], [])
    conf.set_override('driver', 'horses', group='power')
    with pytest.raises(
        drivers.BadPowerSettings, match=r'\[power\] driver: horses cannot be loaded'
    ):
        drivers.load_driver(conf)
    conf.set_override('driver', 'notify', group='power')
    assert isinstance(drivers.load_driver(conf), NotifyDriver)


class TestRedfish:
    """A controller that many machines share, and the file with its password."""

    @pytest.fixture
    def bench(self, tmp_path):
        made = RedfishBench(tmp_path)
        yield made
        made.close()

    def test_one_machine_is_switched_and_no_other(self, bench):
        bench.driver.switch_off(bench.name, True)
        redfish.until(lambda: not bench.is_on())
        assert bench.emulator.is_on('cn2')
        assert bench.driver.is_on('cn2') is True
        assert bench.driver.is_on(bench.name) is False

    def test_machine_without_a_section_is_not_known(self, bench):
        assert not bench.driver.knows('cn3')
        with pytest.raises(drivers.PowerError, match='has no section'):
            bench.driver.switch_on('cn3')

    def test_file_is_read_again_when_it_has_changed(self, bench):
        text = bench.file.read_text()
        bench.emulator.machines(bench.file, 'wrong-secret')
        with pytest.raises(drivers.PowerError) as told:
            bench.driver.is_on(bench.name)
        assert str(told.value) == 'The controller of cn1 answered 401'
        bench.file.write_text(text.replace('[cn1]', '[cn3]'))
        assert (bench.driver.knows('cn1'), bench.driver.knows('cn3')) == (False, True)
        # What is wrong now is not used.
        bench.file.write_text('nonsense with a secret')
        assert bench.driver.knows('cn3')

    def test_controller_with_several_systems_wants_one_named(self, bench):
        bench.file.write_text(re.sub('system = .*', '', bench.file.read_text()))
        with pytest.raises(drivers.PowerError, match='has 2 systems: name one as system'):
            bench.driver.is_on(bench.name)


@pytest.mark.parametrize(
    ('text', 'told'),
    [
        ('[cn1]\npassword = secret', r'section \[cn1\] has no address'),
        ('[cn1]\naddress = a\npasword = secret', r'section \[cn1\] has pasword\. It has address'),
        (
            '[cn1]\naddress = https://climate:secret@a',
            r'address of section \[cn1\] must have no "@"',
        ),
        (
            '[cn1]\naddress = 10.0.0.14\npassword = secret',
            r'address of section \[cn1\] must be a URL, as https://10\.0\.0\.14',
        ),
        ('password = secret', 'cannot be read: MissingSectionHeaderError'),
    ],
)
def test_file_that_makes_no_sense_is_refused_without_secrets(tmp_path, text, told):
    path = tmp_path / 'machines.conf'
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(drivers.BadPowerSettings, match=told) as refused:
        MachinesFile(str(path), RedfishMachine)
    assert 'secret' not in str(refused.value)


def test_file_that_is_lost_is_complained_of_once(tmp_path, caplog):
    path = tmp_path / 'machines.conf'
    path.write_text('[cn1]\naddress = a')
    path.chmod(0o600)
    machines = MachinesFile(str(path), Machine)
    path.unlink()
    for _ in range(3):
        assert 'cn1' in machines.names()
    assert caplog.text.count('No such file') == 1
    path.write_text('[cn2]\naddress = a')
    path.chmod(0o600)
    assert 'cn2' in machines.names()
    path.unlink()
    machines.names()
    assert caplog.text.count('No such file') == 2


def redfish_driver(tmp_path, address):
    """Return a driver of the machine cn1."""
    path = tmp_path / 'machines.conf'
    path.write_text(f'[cn1]\naddress = {address}')
    path.chmod(0o600)
    conf = config.load([], [])
    conf.set_override('machines_file', str(path), group='power')
    return RedfishDriver(conf)


def test_controller_that_is_not_there_is_asked_once_and_not_logged(tmp_path, caplog, monkeypatch):
    asked = []

    def refuse(_session, method, url, **_kwargs):
        asked.append((method, url))
        raise requests.ConnectionError(url)

    monkeypatch.setattr(requests.Session, 'request', refuse)
    driver = redfish_driver(tmp_path, 'https://192.0.2.1')
    with pytest.raises(drivers.PowerError, match='The controller of cn1: ConnectionError'):
        driver.is_on('cn1')
    assert len(asked) == 1
    assert '192.0.2.1' not in caplog.text


def test_machine_is_not_switched_off_long_after_that_was_wanted(tmp_path, monkeypatch):
    """It may be wanted on again by then."""
    system = mock.Mock(power_state=sushy.PowerState.ON)
    system.get_allowed_reset_system_values.return_value = {sushy.ResetType.GRACEFUL_SHUTDOWN}
    driver = redfish_driver(tmp_path, 'https://192.0.2.1')
    monkeypatch.setattr(driver, '_system', lambda _name: system)
    clock = mock.Mock(side_effect=[0.0, 21.0, 30.0, 50.0])
    monkeypatch.setattr('climate_hosts.power.redfish.time', mock.Mock(monotonic=clock))
    with pytest.raises(drivers.PowerError, match='The controller of cn1 is too slow'):
        driver.switch_off('cn1', True)
    assert not system.reset_system.called
    driver.switch_off('cn1', False)
    system.reset_system.assert_called_once_with(sushy.ResetType.GRACEFUL_SHUTDOWN)


@pytest.mark.parametrize('mode', [0o644, 0o642])
def test_file_that_others_may_read_is_refused(tmp_path, mode):
    path = tmp_path / 'machines.conf'
    path.write_text('')
    path.chmod(mode)
    with pytest.raises(drivers.BadPowerSettings, match='Its mode must be 0640 or less'):
        MachinesFile(str(path), Machine)


def test_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(drivers.BadPowerSettings, match='No such file'):
        MachinesFile(str(tmp_path / 'machines.conf'), Machine)
    with pytest.raises(drivers.BadPowerSettings, match='must name a file for this driver'):
        MachinesFile(None, Machine)


@pytest.mark.parametrize(
    ('text', 'verify'), [('', True), ('verify = False', False), ('verify = /a.pem', '/a.pem')]
)
def test_certificate_is_verified_unless_it_is_said_otherwise(tmp_path, text, verify):
    path = tmp_path / 'machines.conf'
    path.write_text(f'[cn1]\naddress = https://192.0.2.1\npassword = secret\n{text}\n')
    path.chmod(0o600)
    found = MachinesFile(str(path), RedfishMachine).get('cn1')
    assert found.verify == verify
    assert 'secret' not in repr(found)
