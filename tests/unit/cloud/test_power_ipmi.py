# SPDX-License-Identifier: Apache-2.0
"""The driver ``ipmi`` at controllers that speak IPMI; what all drivers do is tested beside it."""

import subprocess
from unittest import mock

import pytest

from climate_core import conf as config
from climate_hosts.power import drivers
from climate_hosts.power.drivers import MachinesFile
from climate_hosts.power.ipmi import IpmiDriver, IpmiMachine
from tests.support import ipmi


def make(path, **timing):
    """Return the driver that has this file of machines."""
    conf = config.load([], [])
    conf.set_override('machines_file', str(path), group='power')
    return IpmiDriver(conf, **timing)


@pytest.fixture(scope='module')
def emulator(tmp_path_factory):
    with ipmi.running(tmp_path_factory.mktemp('ipmi'), 'cn1', 'cn2') as made:
        yield made


@pytest.fixture
def file(emulator, tmp_path):
    path = tmp_path / 'machines.conf'
    emulator.machines(path)
    return path


@pytest.fixture
def driver(file, emulator):
    emulator.refuse('cn1')
    made = make(file)
    made.switch_on('cn1')
    return made


@pytest.fixture
def argued(monkeypatch):
    """Return the arguments with which commands are run, each with its environment."""
    seen, run = [], subprocess.run

    def look(command, **options):
        seen.append((command, options))
        return run(command, **options)

    monkeypatch.setattr(subprocess, 'run', look)
    return seen


def test_operating_system_is_asked_before_the_power_is_cut(driver, emulator):
    for force, told in ((False, 'soft'), (True, 'off')):
        driver.switch_on('cn1')
        driver.switch_off('cn1', force)
        assert emulator.told('cn1')[-1] == told
    assert emulator.told('cn2') == []


def test_machine_that_is_so_is_not_told_again(driver, emulator):
    before = emulator.told('cn1')
    driver.switch_on('cn1')
    driver.switch_off('cn1', True)
    driver.switch_off('cn1', False)
    assert emulator.told('cn1') == [*before, 'off']


def test_password_is_in_no_argument_and_no_shell_is_asked(driver, argued, caplog):
    assert driver.is_on('cn1') is True
    ((command, options),) = argued
    assert isinstance(command, list)
    assert ipmi.PASSWORD not in ' '.join(command)
    assert not options.get('shell')
    assert options['env']['IPMI_PASSWORD'] == ipmi.PASSWORD
    assert options['timeout']
    assert ipmi.PASSWORD not in caplog.text


def test_password_of_the_environment_of_the_manager_counts_for_nothing(driver, monkeypatch):
    monkeypatch.setenv('IPMITOOL_PASSWORD', 'another')
    assert driver.is_on('cn1') is True


def test_session_has_no_more_rights_than_it_needs(file, emulator, argued):
    assert make(file).is_on('cn2')
    assert ' -L OPERATOR ' in ' '.join(argued[-1][0])
    emulator.machines(file, privilege_level='ADMINISTRATOR', cipher_suite='3')
    assert make(file).is_on('cn2')
    assert ' -L ADMINISTRATOR ' in ' '.join(argued[-1][0])
    assert ' -C 3 ' in ' '.join(argued[-1][0])


REFUSED = (
    'The controller of cn1 does not answer, or rejects username, password, cipher_suite or '
    r'privilege_level of section \[cn1\]'
)


@pytest.mark.parametrize(
    ('wrong', 'told'),
    [
        ({'password': 'wrong-secret'}, REFUSED),
        # The controller has no other than 3.
        ({'cipher_suite': '17'}, REFUSED),
        (
            {'address': 'no-secret.invalid'},
            r'The controller of cn1 has no IP address: see address',
        ),
    ],
)
def test_what_a_controller_refuses_is_trouble_without_secrets(file, emulator, wrong, told, caplog):
    emulator.machines(file, **wrong)
    if 'address' in wrong:
        text = '[cn1]\naddress = no-secret.invalid\nusername = climate\npassword = a-secret'
        file.write_text(text)
    with pytest.raises(drivers.PowerError, match=told) as refused:
        make(file).is_on('cn1')
    for text in (str(refused.value), caplog.text):
        assert 'secret' not in text
        assert '127.0.0.1' not in text


def test_controller_that_refuses_says_why(driver, emulator):
    emulator.refuse('cn1', 'soft')
    told = 'The controller of cn1 rejected the request: Command not supported in present state'
    with pytest.raises(drivers.PowerError) as refused:
        driver.switch_off('cn1', False)
    assert str(refused.value) == told
    # The power can be cut.
    driver.switch_off('cn1', True)
    assert not emulator.is_on('cn1')


def test_command_that_hangs_is_ended(driver, monkeypatch, tmp_path):
    slow = tmp_path / 'ipmitool'
    slow.write_text('#!/bin/sh\nexec sleep 600\n')
    slow.chmod(0o700)
    monkeypatch.setattr(driver, '_command', (str(slow),))
    monkeypatch.setattr('climate_hosts.power.ipmi._TIMEOUT', 0.1)
    with pytest.raises(drivers.PowerError, match=r'did not answer in 0\.1 seconds'):
        driver.switch_on('cn1')
    slow.unlink()
    with pytest.raises(drivers.PowerError, match='ipmitool cannot be run: No such file'):
        driver.switch_on('cn1')


@pytest.mark.parametrize(
    ('printed', 'told'),
    [
        ('echo a-secret; exit 3', 'ipmitool failed at the controller of cn1'),
        ('echo a-secret', 'The controller of cn1 did not report whether it is on'),
    ],
)
def test_what_is_not_understood_is_trouble_without_secrets(
    driver, monkeypatch, tmp_path, printed, told
):
    strange = tmp_path / 'ipmitool'
    strange.write_text(f'#!/bin/sh\n{printed}\n')
    strange.chmod(0o700)
    monkeypatch.setattr(driver, '_command', (str(strange),))
    with pytest.raises(drivers.PowerError) as refused:
        driver.is_on('cn1')
    assert str(refused.value) == told


def test_machine_is_not_switched_off_long_after_that_was_wanted(driver, emulator, monkeypatch):
    """It may be wanted on again by then."""
    clock = mock.Mock(side_effect=[0.0, 21.0])
    monkeypatch.setattr('climate_hosts.power.ipmi.time', mock.Mock(monotonic=clock))
    with pytest.raises(drivers.PowerError, match='The controller of cn1 is too slow'):
        driver.switch_off('cn1', True)
    assert emulator.is_on('cn1')


def test_driver_needs_its_command(file, monkeypatch):
    monkeypatch.setenv('PATH', '/nowhere')
    with pytest.raises(drivers.BadPowerSettings, match='install the package ipmitool'):
        make(file)


def test_driver_is_found_by_its_name(file):
    conf = config.load([], [])
    conf.set_override('machines_file', str(file), group='power')
    conf.set_override('driver', 'ipmi', group='power')
    assert isinstance(drivers.load_driver(conf), IpmiDriver)


def read(tmp_path, text):
    path = tmp_path / 'machines.conf'
    path.write_text(f'[cn1]\n{text}')
    path.chmod(0o600)
    return MachinesFile(str(path), IpmiMachine).get('cn1')


@pytest.mark.parametrize(
    ('address', 'found'),
    [
        ('10.0.0.14', ('10.0.0.14', 623)),
        ('10.0.0.14:6230', ('10.0.0.14', 6230)),
        ('bmc-4.example.org', ('bmc-4.example.org', 623)),
        ('2001:db8::14', ('2001:db8::14', 623)),
        ('[2001:db8::14]:6230', ('2001:db8::14', 6230)),
    ],
)
def test_address_may_have_a_port(tmp_path, address, found):
    assert read(tmp_path, f'address = {address}').host_and_port() == found


@pytest.mark.parametrize(
    ('text', 'told'),
    [
        ('password = secret', r'section \[cn1\] has no address\. It has address, and may have ci'),
        ('address = a\nsystem = 1', 'has system. It has address, and may have cipher_suite, pass'),
        (
            'address = https://a-secret',
            'must be a host name or an IP address, with a port if that',
        ),
        ('address = https://a-secret:1', 'must be a host name or an IP address'),
        ('address = a-secret:x', r'address of section \[cn1\] must be a host name'),
        ('address = a-secret:70000', 'as 10.0.0.14 or 10.0.0.14:6230'),
        ('address = -x a-secret', 'must be a host name'),
        ('address = me@a-secret', 'must have no "@"'),
        (f'address = a\nusername = {"u" * 17}', 'username of .* must have 16 bytes at most'),
        (f'address = a\npassword = {"secret" * 4}', 'password of .* must have 20 bytes at most'),
        ('address = a\nprivilege_level = USER', 'must be OPERATOR or ADMINISTRATOR'),
        ('address = a\ncipher_suite = 0', 'cipher_suite of .* must be a number from 1 to 17'),
    ],
)
def test_section_that_makes_no_sense_is_refused_without_secrets(tmp_path, text, told):
    with pytest.raises(drivers.BadPowerSettings, match=told) as refused:
        read(tmp_path, text)
    assert 'secret' not in str(refused.value)
