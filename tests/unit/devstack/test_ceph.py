# SPDX-License-Identifier: Apache-2.0
import base64
import configparser
import graphlib
import json
import os
import pathlib
import socket
import stat
import struct
import threading
from collections.abc import Iterator

import pytest
from climate_cloud import ceph, install
from climate_cloud.cloud import Cloud
from climate_cloud.settings import PORTS, Settings, SettingsError

from tests.unit.devstack import venv


def test_a_key_is_what_ceph_reads() -> None:
    secret = base64.b64decode(ceph.key())
    kind, _, _, length = struct.unpack_from('<HIIH', secret)
    assert (kind, length, len(secret)) == (1, 16, 28)
    assert ceph.key() != ceph.key()


def test_a_keyring_says_what_its_owner_may() -> None:
    keys = configparser.ConfigParser()
    keys.read_string(ceph.keyring({'client.cinder': 'secret'}))
    assert keys.sections() == ['client.cinder']
    assert keys['client.cinder']['key'] == 'secret'
    pools = '"profile rbd pool=volumes, profile rbd pool=backups"'
    assert keys['client.cinder']['caps osd'] == pools


def test_every_daemon_has_ports_of_its_own(tmp_path: pathlib.Path) -> None:
    settings = Settings(state=tmp_path, base_port=31000, ceph=True)
    cluster = ceph.Ceph(settings)
    cluster.directory.mkdir(parents=True)
    cluster.prepare()
    config = configparser.ConfigParser()
    config.read(cluster.config)
    used = {int(config['global']['mon_host'].rpartition(':')[2].rstrip(']'))}
    for daemon in ('osd', 'mgr'):
        first, last = (config[daemon][f'ms_bind_port_{end}'] for end in ('min', 'max'))
        used |= set(range(int(first), int(last) + 1))
    assert used == set(range(31004, 31010))
    others = {settings.port(name) for name in PORTS if not name.startswith('ceph')}
    assert not used & others


@pytest.fixture
def deep(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a state directory whose sockets have names that are too long for the kernel."""
    state = tmp_path / ('long' * 25)
    (state / 'run').mkdir(parents=True)
    return state


@pytest.fixture
def daemon(deep: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """Return a daemon that knows the command status only; what it was asked."""
    asked: list[bytes] = []
    monkeypatch.chdir(deep)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind('run/ceph-osd.asok')
        listener.listen()

        def answer() -> None:
            with listener.accept()[0] as client:
                asked.append(client.recv(1024))
                known = json.loads(asked[0][:-1])['prefix'] == 'status'
                text = b'{"state": "active"}' if known else b''
                client.sendall(struct.pack('>I', len(text)) + text)

        thread = threading.Thread(target=answer)
        thread.start()
        yield asked
        thread.join()


def test_a_daemon_is_asked_through_its_socket(deep: pathlib.Path, daemon: list[bytes]) -> None:
    assert ceph.ask(deep, 'ceph-osd', 'status') == {'state': 'active'}
    assert daemon == [b'{"prefix": "status"}\0']


def test_a_daemon_that_does_not_know_the_command_yet(
    deep: pathlib.Path, daemon: list[bytes]
) -> None:
    with pytest.raises(ValueError, match='Expecting value'):
        ceph.ask(deep, 'ceph-osd', 'mon_status')


def test_no_daemon_is_not_ready(deep: pathlib.Path) -> None:
    cluster = ceph.Ceph(Settings(state=deep, ceph=True))
    assert not cluster.has_quorum()
    assert not cluster.osd_is_active()
    assert not cluster.has_capacity()


def test_room_is_that_of_the_pool_once_it_is_counted() -> None:
    pools = [{'name': 'other', 'stats': {'max_avail': 7}}]
    assert ceph.room({'pools': pools}) == 0
    pools.append({'name': ceph.POOL, 'stats': {'max_avail': 5}})
    assert ceph.room({'pools': pools}) == 5


@pytest.mark.parametrize('on', [True, False])
def test_everything_that_a_step_needs_is_a_step(tmp_path: pathlib.Path, on: bool) -> None:
    cloud = Cloud(Settings(state=tmp_path, ceph=on))
    needs = {name: list(first) for name, (first, _) in cloud._steps(0).items()}
    assert {name for names in needs.values() for name in names} <= set(needs)
    order = list(graphlib.TopologicalSorter(needs).static_order())
    chain = ['ceph stores', 'ceph-mon', 'ceph pools', 'ceph-osd', 'cinder-volume-ceph', 'settled']
    assert [name for name in order if name in chain] == (chain if on else ['settled'])
    assert ('cinder-backup' in needs['settled']) == on


def test_cinder_is_told_of_ceph_only_when_it_is_there(tmp_path: pathlib.Path) -> None:
    for on in (False, True):
        cloud = Cloud(Settings(state=tmp_path, ceph=on))
        venv.prepare(cloud.settings)
        cloud.configs.write()
        assert cloud.configs.ceph_backend.exists() == on
        assert cloud.configs.ceph_backup.exists() == on
    backend = configparser.ConfigParser()
    backend.read(cloud.configs.ceph_backend)
    assert backend['ceph']['rbd_ceph_conf'] == str(cloud.ceph.config)
    assert (backend['ceph']['rbd_pool'], backend['ceph']['rbd_user']) == (ceph.POOL, ceph.USER)
    backup = configparser.ConfigParser()
    backup.read(cloud.configs.ceph_backup)
    assert backup['DEFAULT']['backup_ceph_conf'] == str(cloud.ceph.config)
    assert backup['DEFAULT']['backup_ceph_pool'] == ceph.BACKUPS


def test_os_brick_finds_the_keyring(tmp_path: pathlib.Path) -> None:
    """It knows no other place than this (RBDConnector._check_or_get_keyring_contents)."""
    cloud = Cloud(Settings(state=tmp_path, ceph=True))
    venv.prepare(cloud.settings)
    cloud.configs.write()
    backend = configparser.ConfigParser()
    backend.read(cloud.configs.ceph_backend)
    cloud.ceph.directory.mkdir(parents=True)
    (cloud.ceph.directory / f'{ceph.USER}.keyring').write_text('the key')
    cloud.ceph.prepare()
    cluster, user = backend['ceph']['rbd_cluster_name'], backend['ceph']['rbd_user']
    place = pathlib.PurePath(f'/etc/ceph/{cluster}.client.{user}.keyring')
    found = pathlib.Path(os.path.normpath(place))
    assert found.read_text() == 'the key'
    # A second `up`.
    cloud.ceph.prepare()


def test_stores_are_made_whole_or_not_at_all(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = ceph.Ceph(Settings(state=tmp_path, ceph=True))

    def broken(program: str, *arguments: str) -> str:
        raise ceph.ServiceFailed(program)

    with monkeypatch.context() as patch:
        patch.setattr(cluster, '_run', broken)
        with pytest.raises(ceph.ServiceFailed):
            cluster.prepare()
    assert not cluster.directory.exists()
    monkeypatch.setattr(cluster, '_run', lambda program, *arguments: '')
    cluster.prepare()
    for name in ('keyring', 'cinder.keyring'):
        assert stat.S_IMODE((cluster.directory / name).stat().st_mode) == 0o600
    keys = configparser.ConfigParser()
    keys.read(cluster.directory / 'keyring')
    assert set(keys.sections()) == set(ceph.CAPABILITIES)


@pytest.fixture
def debian(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Return where Debian keeps the modules of its own Python; beside it is our interpreter."""
    packages = tmp_path / 'dist-packages'
    packages.mkdir()
    monkeypatch.setattr(install, 'DEBIAN_PYTHON', str(packages))
    python = tmp_path / 'venv' / 'bin' / 'python'
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho .cpython-311.so {tmp_path}/venv\n')
    python.chmod(0o755)
    return packages


def test_bindings_of_the_same_python_are_linked(debian: pathlib.Path) -> None:
    venv = debian.parent / 'venv'
    for module in ('rados', 'rbd'):
        (debian / f'{module}.cpython-311.so').touch()
    install.link_bindings(venv / 'bin' / 'python')
    install.link_bindings(venv / 'bin' / 'python')
    assert (venv / 'rbd.cpython-311.so').readlink() == debian / 'rbd.cpython-311.so'


def test_bindings_of_another_python_are_refused(debian: pathlib.Path) -> None:
    (debian / 'rados.cpython-313.so').touch()
    with pytest.raises(SettingsError, match=r'rados\.cpython-311\.so, and there is .*313'):
        install.link_bindings(debian.parent / 'venv' / 'bin' / 'python')


def test_packages_of_ceph_are_wanted_only_with_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, 'APT', {})
    monkeypatch.setattr(
        install,
        'CEPH_APT',
        {'there': (f'{tmp_path}/there.*.so',), 'missing': (f'{tmp_path}/missing.*.so',)},
    )
    (tmp_path / 'there.any.so').touch()
    assert 'missing' not in install.missing_packages(Settings(state=tmp_path))
    missing = install.missing_packages(Settings(state=tmp_path, ceph=True))
    assert 'missing' in missing
    assert 'there' not in missing
