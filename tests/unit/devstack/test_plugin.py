# SPDX-License-Identifier: Apache-2.0
"""The DevStack plugin, with DevStack's functions replaced by a record of their calls."""

import pathlib
import subprocess

from climate_core.lease import limits

ROOT = pathlib.Path(__file__).resolve().parents[3]

# Each function of DevStack that the plugin calls writes its name and arguments.
STUBS = """\
for name in setup_develop configure_keystone_authtoken_middleware setup_logging sudo \\
    write_uwsgi_config create_service_user get_or_create_service get_or_create_endpoint \\
    recreate_database climate-manage run_process stop_process remove_uwsgi_config iniset \\
    iniset_rpc_backend iniadd define_plugin plugin_requires enable_service openstack; do
    eval "function $name { echo $name \\"\\$@\\"; }"
done
function is_service_enabled { return 0; }
function wait_for_service { return 0; }
function echo_summary { :; }
function database_connection_url { echo "mysql://$1"; }
function iniget { echo "ComputeFilter"; }
function iniget_multiline { :; }
DEST=/opt/stack DATA_DIR=$1 NOVA_CONF=nova.conf STACK_USER=stack REGION_NAME=RegionOne
ENABLE_DEBUG_LOG_LEVEL=True SERVICE_PROTOCOL=http SERVICE_HOST=controller
SERVICE_TIMEOUT=1 CLIMATE_NOVA_KEY=secret
source devstack/settings
"""


def phase(tmp_path: pathlib.Path, *arguments: str) -> list[str]:
    """Run one phase of the plugin; return the calls of DevStack's functions."""
    script = f'set -eu\n{STUBS}\nset -- {" ".join(arguments)}\nsource devstack/plugin.sh'
    done = subprocess.run(
        ['bash', '-c', script, 'stack', str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_post_config_enables_climate_in_nova(tmp_path: pathlib.Path) -> None:
    calls = phase(tmp_path, 'stack', 'post-config')
    assert 'iniadd nova.conf oslo_messaging_notifications driver climate' in calls
    assert (
        'iniset nova.conf filter_scheduler enabled_filters ComputeFilter,ReservationFilter'
        in calls
    )
    url = 'http://controller/reservation/v1'
    assert f'iniset nova.conf climate endpoint_override {url}' in calls
    assert f'get_or_create_endpoint reservation RegionOne {url}' in calls
    assert not [call for call in calls if '@{' in call]


def test_post_config_writes_the_uwsgi_configuration(tmp_path: pathlib.Path) -> None:
    calls = phase(tmp_path, 'stack', 'post-config')
    [uwsgi] = [call for call in calls if call.startswith('write_uwsgi_config')]
    assert 'climate_core.wsgi.api:application /reservation' in uwsgi
    assert 'climate-manage --config-file /etc/climate/climate.conf db upgrade' in calls


def test_limits_are_registered_and_turned_on(tmp_path: pathlib.Path) -> None:
    calls = phase(tmp_path, 'stack', 'post-config')
    assert 'iniset /etc/climate/climate.conf limits enabled True' in calls
    made = [call.split() for call in calls if 'registered limit create' in call]
    assert {words[-1] for words in made} == set(limits.NAMES)
    assert all(words[words.index('--region') + 1] == 'RegionOne' for words in made)


def test_start_and_stop(tmp_path: pathlib.Path) -> None:
    started = phase(tmp_path, 'stack', 'extra')
    for service in ('climate-api', 'climate-manager'):
        assert [call for call in started if call.startswith(f'run_process {service} ')]
        assert f'stop_process {service}' in phase(tmp_path, 'unstack')


def test_clean_removes_what_was_written(tmp_path: pathlib.Path) -> None:
    calls = phase(tmp_path, 'clean')
    assert 'remove_uwsgi_config /etc/climate/climate-uwsgi.ini climate-api' in calls
