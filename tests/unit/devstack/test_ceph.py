# SPDX-License-Identifier: Apache-2.0
import configparser
import graphlib
import pathlib
import stat

import pytest
from climate_cloud import ceph, install
from climate_cloud.cloud import Cloud
from climate_cloud.settings import PORTS, Settings, SettingsError


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


@pytest.mark.parametrize('on', [True, False])
def test_everything_that_a_step_needs_is_a_step(tmp_path: pathlib.Path, on: bool) -> None:
    cloud = Cloud(Settings(state=tmp_path, ceph=on))
    needs = {name: list(first) for name, (first, _) in cloud._steps(0).items()}
    assert {name for names in needs.values() for name in names} <= set(needs)
    order = list(graphlib.TopologicalSorter(needs).static_order())
    chain = ['ceph stores', 'ceph-mon', 'ceph pools', 'ceph-osd', 'cinder-volume-ceph', 'settled']
    assert [name for name in order if name in chain] == (chain if on else ['settled'])
    assert ('cinder-backup' in needs['settled']) == on


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
