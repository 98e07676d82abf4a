# SPDX-License-Identifier: Apache-2.0
"""The DevStack plugin, with DevStack's functions replaced by a record of their calls."""

import pathlib
import re
import subprocess

import pytest

from climate_common import sealing
from climate_core import conf as climate_conf
from climate_core.lease import limits
from climate_core.sync import listener

ROOT = pathlib.Path(__file__).resolve().parents[3]

# Each function of DevStack that the plugin calls writes its name and arguments.
STUBS = """\
for name in setup_develop configure_keystone_authtoken_middleware setup_logging sudo \\
    write_uwsgi_config create_service_user get_or_create_service get_or_create_endpoint \\
    recreate_database climate-manage run_process stop_process remove_uwsgi_config iniset \\
    iniset_rpc_backend iniadd define_plugin plugin_requires enable_service openstack cp \\
    install_package rpc_backend_add_vhost; do
    eval "function $name { echo $name \\"\\$@\\"; }"
done
function is_service_enabled {
    local one
    for one; do [[ ,$ENABLED, == *,$one,* ]] && return 0; done
    return 1
}
function wait_for_service { return 0; }
function echo_summary { :; }
function database_connection_url { echo "mysql://$1"; }
function iniget { echo "SomeFilter"; }
function iniget_multiline { :; }
DEST=/opt/stack DATA_DIR=$1 NOVA_CONF=nova.conf PLACEMENT_CONF=placement.conf
CINDER_CONF=cinder.conf HEAT_CONF=heat.conf
STACK_USER=stack REGION_NAME=RegionOne
ENABLE_DEBUG_LOG_LEVEL=True SERVICE_PROTOCOL=http SERVICE_HOST=controller
SERVICE_TIMEOUT=1 CLIMATE_NOVA_KEY=secret CLIMATE_SECRET_KEY=$2
RABBIT_HOST=controller CLIMATE_DATA_DIR=$1 HORIZON_DIR=$DEST/horizon
source devstack/settings
"""
POST_CONFIG = ('stack', 'post-config')
OPTION = 'iniset /etc/climate/climate.conf virtual:instance secret_keys'
CONTROLLER = 'climate-api,climate-manager,key,placement-api,n-cpu,cinder,c-vol,heat,h-eng'


def phase(
    tmp_path: pathlib.Path,
    *arguments: str,
    enabled: str = CONTROLLER,
    pool: str = '',
    key: str = 'sealed',
) -> list[str]:
    """Run one phase of the plugin; return the calls of DevStack's functions.

    :param enabled: the services of this node
    :param pool: hosts that leases shall have
    :param key: with which leases keep what is secret; empty: it is to be made
    """
    lines = [
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


def test_post_config_adds_the_lines_of_the_policy_of_neutron(tmp_path: pathlib.Path) -> None:
    lines = 'devstack/local/templates/policies/neutron.yaml /etc/neutron/policy.d/climate.yaml'
    for enabled in ('climate-api,climate-manager,key,q-svc', 'neutron-api'):
        calls = phase(tmp_path, *POST_CONFIG, enabled=enabled)
        assert [call for call in calls if call.startswith('cp ') and call.endswith(lines)]
    assert not [call for call in phase(tmp_path, *POST_CONFIG) if 'neutron' in call]


def test_post_config_gives_climate_a_vhost_and_users_with_least_rights(
    tmp_path: pathlib.Path,
) -> None:
    calls = phase(tmp_path, *POST_CONFIG, enabled=f'{CONTROLLER},rabbit')
    urls = {
        tuple(call.split()[2:4]): re.sub(':[0-9a-f]{32}@', '@', call.split()[-1])
        for call in calls
        if call.startswith('iniset') and 'transport_url' in call
    }
    notify = 'rabbit://climate-notify@controller:5672/'
    assert urls == {
        ('DEFAULT', 'transport_url'): 'rabbit://climate@controller:5672/climate',
        **{
            (f'{each}_notifications', 'transport_url'): notify
            for each in ('oslo_messaging', 'nova', 'cinder', 'heat')
        },
    }
    assert 'rpc_backend_add_vhost climate' in calls
    permissions = [call.split()[3:] for call in calls if 'set_permissions' in call]
    assert permissions[0] == ['-p', 'climate', 'climate', '.*', '.*', '.*']
    assert permissions[1][:3] == ['-p', '/', 'climate-notify']
    rights = [re.compile(each) for each in permissions[1][3:]]

    def may(name: str) -> list[bool]:
        """Return whether the user may configure, write and read what has a name."""
        return [bool(each.search(name)) for each in rights]

    options = climate_conf.load([], config_files=[])
    for group in (each.group for each in listener.SOURCES):
        # It declares and reads the exchanges of others, and publishes nothing there.
        assert may(options[group].exchange) == [True, False, True]
        assert may(options[group].pool) == [True, True, True]
    for queue in ('notifications.info', 'notifications.error'):
        assert may(queue) == [True, True, False]
    for foreign in ('', 'amq.default', 'conductor', 'nova_fanout', 'climate.manager', 'neutron'):
        assert may(foreign) == [False, False, False]


def test_bus_is_shared_where_this_node_has_no_rabbitmq(tmp_path: pathlib.Path) -> None:
    calls = phase(tmp_path, *POST_CONFIG)
    assert [call for call in calls if call.startswith('iniset_rpc_backend climate')]
    assert not [call for call in calls if 'rabbitmqctl' in call]


@pytest.mark.parametrize('service', ['cinder', 'heat'])
def test_a_service_is_left_alone_where_it_is_not(tmp_path: pathlib.Path, service: str) -> None:
    calls = phase(tmp_path, *POST_CONFIG, enabled='climate-api,climate-manager,key')
    assert not [call for call in calls if f'{service}.conf' in call]


@pytest.mark.parametrize(
    ('enabled', 'files'),
    [
        ('n-cpu', {'nova.conf'}),
        ('n-api', {'nova.conf'}),
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
    assert {words[-1] for words in made} == set(limits.NAMES)
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
