# SPDX-License-Identifier: Apache-2.0
import pathlib

import pytest
from climate_cloud import configs, identity, rabbitmq, secrets
from climate_cloud.settings import Settings
from oslo_config import cfg
from oslo_policy import policy

from climate_common import sealing
from climate_core.db.project_limits import NAMES
from tests.unit.devstack import venv


def write(settings: Settings) -> configs.Configs:
    """Write the configuration of a cloud."""
    venv.prepare(settings)
    made = configs.Configs(
        settings, secrets.load(settings.data), 'rabbit://{}@bus/'.format, 'mysql://sql/{}'.format
    )
    made.write()
    return made


@pytest.fixture
def written(tmp_path: pathlib.Path) -> configs.Configs:
    return write(Settings(state=tmp_path, computes=2))


def read(path: pathlib.Path) -> dict[str, dict[str, list[str]]]:
    sections: dict[str, dict[str, list[str]]] = {}
    cfg.ConfigParser(str(path), sections).parse()
    return sections


def test_computes_see_no_api_database(written: configs.Configs) -> None:
    control = read(written.path('nova'))
    compute = read(written.compute_path('compute2'))
    assert control['api_database']['connection'] == ['mysql://sql/nova_api']
    assert 'api_database' not in compute
    assert compute['DEFAULT']['host'] == ['compute2']


def test_computes_have_the_public_key_alone(written: configs.Configs) -> None:
    control = read(written.path('nova'))['climate']
    compute = read(written.compute_path('compute2'))['climate']
    (key,) = control['stash_keys']
    assert compute['stash_public_key'] == control['stash_public_key'] == [sealing.public_key(key)]
    assert 'stash_keys' not in compute


def test_nova_is_enabled_for_climate_everywhere(written: configs.Configs) -> None:
    for path in (written.path('nova'), written.compute_path('compute1')):
        drivers = read(path)['oslo_messaging_notifications']['driver']
        assert drivers == ['messagingv2', 'climate']


def test_each_service_notifies_as_a_user_of_its_own(written: configs.Configs) -> None:
    files = {name: written.path(name) for name in ('nova', 'cinder', 'heat', 'climate')}
    for name, path in {**files, 'nova compute': written.compute_path('compute1')}.items():
        found = read(path)
        (url,) = found['oslo_messaging_notifications']['transport_url']
        assert url == f'rabbit://{name.split()[0]}-notify@bus/'
        (rpc,) = found['DEFAULT']['transport_url']
        assert rpc == f'rabbit://{"climate" if name == "climate" else "openstack"}@bus/'
    climate = read(files['climate'])
    for name in ('nova', 'cinder', 'heat'):
        section = climate[f'{name}_notifications']
        assert section['transport_url'] == ['rabbit://climate-notify@bus/']


def test_no_service_has_the_password_of_the_administrator_of_rabbitmq(
    tmp_path: pathlib.Path,
) -> None:
    made = write(Settings(state=tmp_path))
    administrator = f'rabbit://{rabbitmq.USER}@'
    files = [path for path in made.settings.etc.rglob('*.conf') if 'bus/' in path.read_text()]
    assert len(files) > len(made.settings.compute_names)
    assert not [path for path in files if administrator in path.read_text()]


def test_cinder_is_enabled_for_climate_and_keeps_its_own_actions(
    written: configs.Configs,
) -> None:
    cinder = read(written.path('cinder'))
    assert cinder['DEFAULT']['osapi_volume_extension'] == [
        'cinder.api.contrib.standard_extensions',
        'cinder_ext.api.wake_up.Reservations',
    ]
    assert 'ReservationFilter' in cinder['DEFAULT']['scheduler_default_filters'][0]
    assert cinder['oslo_messaging_notifications']['driver'] == ['messagingv2']
    assert cinder['service_user']['username'] == ['cinder']


def test_heat_is_enabled_for_climate(written: configs.Configs) -> None:
    heat = read(written.path('heat'))
    assert heat['DEFAULT']['plugin_dirs'][-1].endswith('heat_ext/plugins')
    assert heat['service_user']['username'] == ['heat']
    (names,) = heat['DEFAULT']['environment_dir']
    assert {file.name for file in pathlib.Path(names).iterdir()} == {
        'default.yaml',
        'climate.yaml',
    }


def test_neutron_keeps_set_apart_addresses_from_users(written: configs.Configs) -> None:
    (path,) = read(written.path('neutron'))['oslo_policy']['policy_file']
    rules = policy.Rules.load(pathlib.Path(path).read_text())
    assert str(rules['create_floatingip:floating_ip_address']) == (
        '(rule:context_is_admin or role:climate)'
    )


@pytest.mark.parametrize('service', ['nova', 'cinder', 'heat'])
def test_role_of_climate_administrates_what_it_works_on(
    written: configs.Configs, service: str
) -> None:
    rules = policy.Rules.load((written.path(service).parent / 'policy.yaml').read_text())
    assert str(rules['context_is_admin']).endswith('or role:climate)')


def test_neutron_has_its_own_policy_where_the_lines_are_left_out(tmp_path: pathlib.Path) -> None:
    made = write(Settings(state=tmp_path, policies=False))
    (path,) = read(made.path('neutron'))['oslo_policy']['policy_file']
    assert policy.Rules.load(pathlib.Path(path).read_text()) == {}


def test_a_stock_cloud_has_nothing_of_climate(tmp_path: pathlib.Path) -> None:
    made = write(Settings(state=tmp_path, stock=True))
    assert 'oslo_policy' not in read(made.path('neutron'))
    for service in ('nova', 'cinder', 'heat'):
        assert '_ext' not in made.path(service).read_text()
    names = made.path('heat').parent / 'environment.d'
    assert [file.name for file in names.iterdir()] == ['default.yaml']


def test_files_with_passwords_are_private(written: configs.Configs) -> None:
    for service in configs.FILES:
        assert written.path(service).stat().st_mode & 0o077 == 0


def test_secrets_stay_the_same_when_loaded_again(tmp_path: pathlib.Path) -> None:
    assert secrets.load(tmp_path) == secrets.load(tmp_path)


def test_every_limit_is_registered() -> None:
    assert set(identity.LIMITS) == set(NAMES)
