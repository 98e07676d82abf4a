# SPDX-License-Identifier: Apache-2.0
"""The DevStack plugin, with DevStack's functions replaced by a record of their calls."""

import pathlib
import re
import subprocess

import pytest
from climate_cloud import identity, rabbitmq

from climate_common import sealing
from climate_core.db.project_limits import NAMES

ROOT = pathlib.Path(__file__).resolve().parents[3]

# Each function of DevStack that the plugin calls writes its name and arguments.
STUBS = """\
for name in setup_develop configure_keystone_authtoken_middleware setup_logging sudo \\
    write_uwsgi_config create_service_user get_or_create_service get_or_create_endpoint \\
    recreate_database climate-manage run_process stop_process remove_uwsgi_config iniset \\
    iniset_rpc_backend iniadd define_plugin plugin_requires enable_service openstack cp \\
    install_package install get_or_create_role get_or_add_user_project_role \\
    get_or_add_user_system_role; do
    eval "function $name { echo $name \\"\\$@\\"; }"
done
function is_service_enabled {
    local one
    for one; do [[ ,$ENABLED, == *,$one,* ]] && return 0; done
    return 1
}
function wait_for_service { return 0; }
function climate-nova-stash { echo "public key of $2"; }
function die { echo "$2" >&2; exit 1; }
function echo_summary { :; }
function database_connection_url { echo "mysql://$1"; }
function iniget { echo "SomeFilter"; }
function iniget_multiline { :; }
DEST=/opt/stack DATA_DIR=$1 NOVA_CONF=nova.conf PLACEMENT_CONF=placement.conf
CINDER_CONF=cinder.conf HEAT_CONF=heat.conf NOVA_UWSGI_CONF=nova-api-uwsgi.ini
KEYSTONE_CONF=/etc/keystone/keystone.conf NEUTRON_CONF=/etc/neutron/neutron.conf
KEYSTONE_SERVICE_URI=https://controller/identity SSL_BUNDLE_FILE=/opt/stack/ca-bundle.pem
SERVICE_PASSWORD=pass SERVICE_DOMAIN_NAME=Default SERVICE_PROJECT_NAME=service
STACK_USER=stack REGION_NAME=RegionOne RABBIT_USERID=stackrabbit RABBIT_PASSWORD=shared
ENABLE_DEBUG_LOG_LEVEL=True SERVICE_PROTOCOL=http SERVICE_HOST=controller
SERVICE_TIMEOUT=1 CLIMATE_NOVA_KEY=secret CLIMATE_SECRET_KEY=$2
RABBIT_HOST=controller CLIMATE_DATA_DIR=$1 HORIZON_DIR=$DEST/horizon
source devstack/settings
"""
POST_CONFIG = ('stack', 'post-config')
OPTION = 'iniset /etc/climate/climate.conf virtual:instance secret_keys'
CONTROLLER = (
    'climate-api,climate-manager,key,rabbit,placement-api,n-api,n-cpu,cinder,c-vol,heat,h-eng'
)
#: The values of options that the plugin makes at random.
RANDOM = re.compile(':[0-9a-f]{32}@')


def phase(
    tmp_path: pathlib.Path,
    *arguments: str,
    enabled: str = CONTROLLER,
    pool: str = '',
    key: str = 'sealed',
    **settings: str,
) -> list[str]:
    """Run one phase of the plugin; return the calls of DevStack's functions.

    :param enabled: the services of this node
    :param pool: hosts that leases shall have
    :param key: with which leases keep what is secret; empty: it is to be made
    :param settings: of local.conf
    """
    lines = [
        *(f'{name}={value}' for name, value in settings.items()),
        STUBS,
        f'ENABLED={enabled}',
        f'CLIMATE_POOL="{pool}"',
        f'set -- {" ".join(arguments)}',
    ]
    script = '\n'.join(['set -eu', *lines, 'source devstack/plugin.sh'])
    done = subprocess.run(
        ['bash', '-c', script, 'stack', str(tmp_path), key],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_install_brings_what_switches_hosts(tmp_path: pathlib.Path) -> None:
    calls = phase(tmp_path, 'stack', 'install')
    assert 'install_package ipmitool' in calls
    (climate,) = (each for each in calls if each.startswith('setup_develop'))
    assert 'power' in climate.split()[-1].split(',')


def test_post_config_enables_climate_in_nova(tmp_path: pathlib.Path) -> None:
    calls = phase(tmp_path, *POST_CONFIG)
    assert 'iniadd nova.conf oslo_messaging_notifications driver climate' in calls
    enabled = 'iniset nova.conf filter_scheduler enabled_filters SomeFilter'
    assert {f'{enabled},{name}' for name in ('ReservationFilter', 'PoolFilter')} <= set(calls)
    url = 'http://controller/reservation/v1'
    assert f'iniset nova.conf climate endpoint_override {url}' in calls
    assert f'get_or_create_endpoint reservation RegionOne {url}' in calls
    assert not [call for call in calls if '@{' in call]
    assert 'iniset placement.conf placement allocation_conflict_retry_count 1' in calls
    assert 'iniset nova.conf scheduler enable_isolated_aggregate_filtering true' in calls


def test_post_config_enables_climate_in_cinder(tmp_path: pathlib.Path) -> None:
    calls = phase(tmp_path, *POST_CONFIG)
    default = 'cinder.conf DEFAULT'
    assert f'iniset {default} volume_manager cinder_ext.manager.VolumeManager' in calls
    extensions = [call.split()[-1] for call in calls if f'{default} osapi_volume_ext' in call]
    assert extensions == [
        'cinder.api.contrib.standard_extensions',
        'cinder_ext.api.wake_up.Reservations',
    ]
    filters = f'iniset {default} scheduler_default_filters SomeFilter,ReservationFilter'
    assert filters in calls
    assert 'iniadd cinder.conf oslo_messaging_notifications driver messagingv2' in calls
    assert 'configure_keystone_authtoken_middleware cinder.conf cinder service_user' in calls
    assert 'iniset cinder.conf service_user send_service_user_token true' in calls


def test_post_config_enables_climate_in_heat(tmp_path: pathlib.Path) -> None:
    calls = phase(tmp_path, *POST_CONFIG)
    plugins = '/opt/stack/climate/heat_ext/plugins'
    assert f'iniset heat.conf DEFAULT plugin_dirs SomeFilter,{plugins}' in calls
    assert 'iniset heat.conf DEFAULT allow_trusts_redelegation true' in calls
    assert 'iniadd heat.conf oslo_messaging_notifications driver messagingv2' in calls
    assert 'configure_keystone_authtoken_middleware heat.conf heat service_user' in calls
    names = '/opt/stack/climate/heat_ext/environment.d/climate.yaml'
    assert f'cp {names} /etc/heat/environment.d' in calls


@pytest.mark.parametrize(
    ('enabled', 'policies'),
    [
        ('climate-api,climate-manager,key,rabbit,q-svc', {'keystone', 'neutron'}),
        ('neutron-api', {'neutron'}),
        ('key', {'keystone'}),
        ('n-api', {'nova'}),
        ('n-cpu,n-sch', set()),
        ('cinder,c-api', {'cinder'}),
        (f'{CONTROLLER},q-svc', {'keystone', 'nova', 'cinder', 'heat', 'neutron'}),
    ],
)
def test_services_accept_the_role_of_climate(
    tmp_path: pathlib.Path, enabled: str, policies: set[str]
) -> None:
    calls = phase(tmp_path, *POST_CONFIG, enabled=enabled)
    copied = [call.split()[1:] for call in calls if call.startswith('cp ') and 'policies' in call]
    assert {pathlib.Path(source).stem for source, _ in copied} == policies
    for source, target in copied:
        assert pathlib.Path(source).is_file()
        assert target.endswith('policy.d/climate.yaml')
        assert target.startswith(('.', f'/etc/{pathlib.Path(source).stem}/'))


def test_user_of_climate_has_the_roles_of_the_security_page(tmp_path: pathlib.Path) -> None:
    calls = phase(tmp_path, *POST_CONFIG)
    # DevStack gives each service user the role service.
    assert 'create_service_user climate' in calls
    added = [call.split()[1] for call in calls if call.startswith('get_or_add_user_project_role')]
    assert {*added, 'service'} == identity.LEAST
    assert 'get_or_create_role climate' in calls
    assert not [call for call in calls if 'system_role' in call]
    # The user of [cloud] reads the limits.
    limits_of = [call.split()[3:] for call in calls if ' oslo_limit ' in call]
    assert limits_of == [['endpoint_region_name', 'RegionOne']]


def test_private_key_is_in_a_file_that_nova_api_alone_reads(tmp_path: pathlib.Path) -> None:
    calls = phase(tmp_path, *POST_CONFIG)
    keys = './nova-api-climate.conf'
    assert [call for call in calls if 'stash_keys' in call] == [
        f'iniset {keys} climate stash_keys secret'
    ]
    files = 'OS_NOVA_CONFIG_FILES=api-paste.ini;nova.conf;nova-api-climate.conf'
    assert f'iniset nova-api-uwsgi.ini uwsgi env {files}' in calls
    assert f'iniset nova.conf climate stash_public_key public key of {keys}' in calls
    compute = phase(tmp_path, *POST_CONFIG, enabled='n-cpu', CLIMATE_NOVA_PUBLIC_KEY='public')
    assert 'iniset nova.conf climate stash_public_key public' in compute
    assert not [call for call in compute if 'secret' in call or 'uwsgi' in call]


def test_only_the_user_of_the_services_reads_files_with_secrets(tmp_path: pathlib.Path) -> None:
    calls = phase(tmp_path, *POST_CONFIG)
    for name, option in (
        ('/etc/climate/climate.conf', 'password'),
        ('./nova-api-climate.conf', 'stash_keys'),
    ):
        created = calls.index(f'install -m 0600 /dev/null {name}')
        filled = [place for place, call in enumerate(calls) if f' {name} ' in call]
        assert created < min(filled), option
    assert f'sudo install -d -m 0750 -o stack /etc/climate {tmp_path}' in calls


def permissions(calls: list[str]) -> dict[str, rabbitmq.Rights]:
    """Return the rights of the users of RabbitMQ."""
    given = [call.split()[4:] for call in calls if 'set_permissions' in call]
    return {user: rabbitmq.Rights(vhost, *rights) for vhost, user, *rights in given}


def test_users_of_rabbitmq_have_the_rights_of_the_local_cloud(tmp_path: pathlib.Path) -> None:
    calls = phase(tmp_path, *POST_CONFIG)
    # That of the other services is DevStack's.
    wanted = {name: each for name, each in rabbitmq.USERS.items() if name != rabbitmq.SERVICES}
    assert permissions(calls) == wanted
    for vhost in ('climate', 'notifications'):
        assert f'sudo rabbitmqctl clear_permissions -p {vhost} stackrabbit' in calls


def test_services_notify_as_users_of_their_own(tmp_path: pathlib.Path) -> None:
    calls = phase(tmp_path, *POST_CONFIG)
    where = [call.split() for call in calls if call.startswith('ini') and 'transport_url' in call]
    urls = {tuple(words[1:3]): words[-1] for words in where}
    conf, notifications = '/etc/climate/climate.conf', 'oslo_messaging_notifications'
    notify = 'rabbit://climate-notify@controller:5672/notifications'
    assert {place: RANDOM.sub('@', url) for place, url in urls.items()} == {
        (conf, 'DEFAULT'): 'rabbit://climate@controller:5672/climate',
        **{
            (conf, f'{each}_notifications'): notify
            for each in ('oslo_messaging', 'nova', 'cinder', 'heat')
        },
        **{
            (f'{each}.conf', notifications): notify.replace('climate-notify', f'{each}-notify')
            for each in ('nova', 'cinder', 'heat')
        },
    }
    assert len({RANDOM.search(url)[0] for url in urls.values()}) == 5  # type: ignore[index]
    # The passwords of the URLs are those of the users; another node knows that of its service.
    users = dict(call.split()[3:] for call in calls if 'rabbitmqctl add_user' in call)
    for url in urls.values():
        user, password = url.removeprefix('rabbit://').split('@')[0].split(':')
        assert users[user] == password
    compute = phase(tmp_path, *POST_CONFIG, enabled='n-cpu')
    assert (
        f'iniset nova.conf {notifications} transport_url {urls["nova.conf", notifications]}'
        in (compute)
    )


def test_bus_of_devstack_can_be_shared(tmp_path: pathlib.Path) -> None:
    shared = CONTROLLER.replace(',rabbit', '')
    for enabled in (shared, 'n-cpu'):
        calls = phase(tmp_path, *POST_CONFIG, enabled=enabled, CLIMATE_OWN_VHOSTS='False')
        assert not [call for call in calls if 'rabbitmqctl' in call or 'transport_url' in call]
    with pytest.raises(AssertionError, match='set CLIMATE_OWN_VHOSTS=False on all'):
        phase(tmp_path, 'stack', 'pre-install', enabled=shared)
    phase(tmp_path, 'stack', 'pre-install', enabled=shared, CLIMATE_OWN_VHOSTS='False')


@pytest.mark.parametrize('service', ['cinder', 'heat'])
def test_a_service_is_left_alone_where_it_is_not(tmp_path: pathlib.Path, service: str) -> None:
    calls = phase(tmp_path, *POST_CONFIG, enabled='climate-api,climate-manager,key,rabbit')
    assert not [call for call in calls if f'{service}.conf' in call]


@pytest.mark.parametrize(
    ('enabled', 'files'),
    [
        ('n-cpu', {'nova.conf'}),
        ('n-api', {'nova.conf', './nova-api-climate.conf', 'nova-api-uwsgi.ini'}),
        ('n-sch,placement-api', {'nova.conf', 'placement.conf'}),
        ('placement-api', {'placement.conf'}),
        ('c-vol,cinder', {'cinder.conf'}),
        ('n-cpu,c-vol,cinder', {'nova.conf', 'cinder.conf'}),
        ('c-bak,cinder', {'cinder.conf'}),
        ('h-eng,heat', {'heat.conf'}),
    ],
)
def test_other_nodes_get_what_runs_there(
    tmp_path: pathlib.Path, enabled: str, files: set[str]
) -> None:
    calls = phase(tmp_path, *POST_CONFIG, enabled=enabled)
    assert {call.split()[1] for call in calls if call.startswith('ini')} == files
    assert not [call for call in calls if call.startswith(('get_or_create', 'recreate'))]


def test_post_config_gives_horizon_its_panels(tmp_path: pathlib.Path) -> None:
    calls = phase(tmp_path, *POST_CONFIG, enabled=f'{CONTROLLER},horizon')
    own = '/opt/stack/horizon/openstack_dashboard/local'
    copied = [call for call in calls if call.startswith('cp ') and own in call]
    assert [call.split()[-1] for call in copied] == [f'{own}/enabled/', f'{own}/local_settings.d/']
    assert not [call for call in phase(tmp_path, *POST_CONFIG) if own in call]


def test_post_config_writes_the_uwsgi_configuration(tmp_path: pathlib.Path) -> None:
    calls = phase(tmp_path, *POST_CONFIG)
    [uwsgi] = [call for call in calls if call.startswith('write_uwsgi_config')]
    assert 'climate_core.wsgi.api:application /reservation' in uwsgi
    assert 'climate-manage --config-file /etc/climate/climate.conf db upgrade' in calls


@pytest.mark.parametrize('key', ['sealed', ''], ids=['set', 'made'])
def test_leases_keep_what_is_secret_with_one_key(tmp_path: pathlib.Path, key: str) -> None:
    first, second = (
        [call.split()[-1] for call in phase(tmp_path, *POST_CONFIG, key=key) if OPTION in call]
        for _ in range(2)
    )
    assert first == second
    assert (
        first == [key] if key else sealing.unseal(sealing.seal({'a': 'b'}, first, ''), second, '')
    )


def test_limits_are_registered_and_turned_on(tmp_path: pathlib.Path) -> None:
    calls = phase(tmp_path, *POST_CONFIG)
    made = [call.split() for call in calls if 'registered limit create' in call]
    assert {words[-1] for words in made} == set(NAMES)
    assert all(words[words.index('--region') + 1] == 'RegionOne' for words in made)


def test_hosts_of_the_pool_are_isolated_before_they_are_enrolled(tmp_path: pathlib.Path) -> None:
    cloud = 'openstack --os-cloud devstack-admin'
    none, two = (phase(tmp_path, 'stack', 'test-config', pool=each) for each in ('', 'c1 c2'))
    assert two[len(none) :] == [
        f'{cloud} aggregate create --property trait:CUSTOM_CLIMATE_POOL=required climate-pool',
        *(
            f'{cloud} {command} {host}'
            for host in ('c1', 'c2')
            for command in ('aggregate add host climate-pool', 'lease host create')
        ),
    ]


def test_plugin_starts_and_stops_the_services(tmp_path: pathlib.Path) -> None:
    started = phase(tmp_path, 'stack', 'extra')
    for service in ('climate-api', 'climate-manager'):
        assert [call for call in started if call.startswith(f'run_process {service} ')]
        assert f'stop_process {service}' in phase(tmp_path, 'unstack')


def test_clean_removes_what_was_written(tmp_path: pathlib.Path) -> None:
    calls = phase(tmp_path, 'clean')
    assert 'remove_uwsgi_config /etc/climate/climate-uwsgi.ini climate-api' in calls
    removed = {call.split()[-1] for call in calls if 'rabbitmqctl delete_' in call}
    assert removed == {*rabbitmq.USERS, 'notifications'} - {rabbitmq.SERVICES}
