# SPDX-License-Identifier: Apache-2.0
import pathlib

import pytest
from climate_cloud import settings


def load(state: pathlib.Path, **values: str) -> settings.Settings:
    names = {f'CLIMATE_CLOUD_{name.upper()}': value for name, value in values.items()}
    return settings.load({'CLIMATE_CLOUD_DIR': str(state), **names})


def test_every_port_follows_the_base_port(tmp_path: pathlib.Path) -> None:
    ports = [load(tmp_path, base_port='31000').port(name) for name in settings.PORTS]
    assert len(set(ports)) == len(ports)
    assert all(31000 <= port < 31020 for port in ports)


def test_environment_wins_over_kept_settings(tmp_path: pathlib.Path) -> None:
    load(tmp_path, base_port='31000', computes='2').save()
    assert load(tmp_path).base_port == 31000
    moved = load(tmp_path, computes='5', pool='1')
    assert (len(moved.compute_names), moved.pool_names) == (6, ['compute6'])


def test_stock_cloud_has_no_pool(tmp_path: pathlib.Path) -> None:
    assert load(tmp_path, stock='1').pool_names == []
    assert load(tmp_path, stock='1').compute_names[-1] == 'compute3'


def test_ports_of_an_existing_cloud_are_fixed(tmp_path: pathlib.Path) -> None:
    load(tmp_path, base_port='31000').save()
    (tmp_path / 'data').mkdir()
    with pytest.raises(settings.SettingsError, match='base_port = 31000'):
        load(tmp_path, base_port='32000')


@pytest.mark.parametrize(
    'values', [{'computes': 'three'}, {'computes': '0'}, {'pool': '-1'}, {'base_port': '80'}]
)
def test_unusable_settings_are_refused(tmp_path: pathlib.Path, values: dict[str, str]) -> None:
    with pytest.raises(settings.SettingsError):
        load(tmp_path, **values)


@pytest.mark.parametrize('name', ['ceph', 'horizon', 'browser'])
def test_option_is_kept(tmp_path: pathlib.Path, name: str) -> None:
    assert not getattr(load(tmp_path), name)
    load(tmp_path, **{name: '1'}).save()
    assert getattr(load(tmp_path), name)
    assert not getattr(load(tmp_path, **{name: '0'}), name)


def test_policies_can_be_left_out(tmp_path: pathlib.Path) -> None:
    assert load(tmp_path).policies
    load(tmp_path, policies='0').save()
    assert not load(tmp_path).policies
