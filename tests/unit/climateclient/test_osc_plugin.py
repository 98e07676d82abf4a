# SPDX-License-Identifier: Apache-2.0
"""The plugin lives beside others, python-blazarclient above all, and starts fast."""

import re
import subprocess
import sys
from importlib import metadata

import pytest

from climateclient.osc import plugin
from tests.unit.climateclient import samples

GROUP = 'openstack.climate.v1'


def test_help_lists_all_commands(run):
    out = run('--help')
    for entry in metadata.entry_points(group=GROUP):
        assert f'  {entry.name.replace("_", " ")} ' in out
    assert '--os-climate-api-version' in out


def test_commands_have_names_of_their_own():
    ours = metadata.entry_points(group=GROUP).names
    others = {
        entry.name
        for distribution in metadata.distributions()
        for entry in distribution.entry_points
        if entry.group.startswith('openstack.') and entry.group != GROUP
    }
    assert {'lease_create', 'lease_host_pool_list'} <= ours
    assert not ours & others


def test_plugin_name_differs_from_that_of_blazar():
    assert plugin.API_NAME != 'reservation'
    assert plugin.API_VERSION_OPTION == 'os_climate_api_version'


def test_endpoint_override_of_clouds_yaml(run, http, monkeypatch, tmp_path):
    """``reservation_endpoint_override`` in clouds.yaml, as for any service."""
    elsewhere = 'http://127.0.0.1:1234/v1'
    clouds = tmp_path / 'clouds.yaml'
    clouds.write_text(f'clouds: {{here: {{reservation_endpoint_override: "{elsewhere}"}}}}')
    monkeypatch.setenv('OS_CLIENT_CONFIG_FILE', str(clouds))
    http.get(f'{elsewhere}/leases', json={'leases': [samples.lease()]})
    out = run('--os-cloud', 'here', 'lease', 'list')
    assert 'lease1' in out


def test_command_modules_import_nothing_heavy():
    """The start of ``openstack`` loads the modules of all commands."""
    code = (
        'import sys, osc_lib.command.command; before = set(sys.modules); '
        'import climateclient.osc.plugin; '
        'from climateclient.osc import account, change, create, host, lease, listing; '
        'from climateclient.osc import reservation, server; '
        'new = {name.split(".")[0] for name in set(sys.modules) - before}; '
        'heavy = {"rich", "openstack", "requests", "keystoneauth1", "zoneinfo", "heatclient"}; '
        'print(*sorted(new & heavy))'
    )
    done = subprocess.run([sys.executable, '-c', code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == ''


@pytest.mark.parametrize(
    'argv',
    [
        # A command that shows nothing, one that shows a lease, one that goes on after an error.
        ('lease', 'reservation', 'remove', samples.LEASE_ID, 'none'),
        ('lease', 'reservation', 'set', samples.LEASE_ID, 'none', '--on-end', 'delete'),
        ('lease', 'end', samples.LEASE_ID),
        ('lease', 'start', samples.LEASE_ID),
    ],
)
def test_error_shows_control_characters_of_stored_texts_as_escapes(fail, http, argv):
    lease = samples.lease(name='a\x1b]0;x\x07b\x9b', reservations=[])
    http.get(f'{samples.ENDPOINT}/leases/{samples.LEASE_ID}', json={'lease': lease})
    body = samples.error(409, 'It is a\x1b]0;x\x07b\x9b.', 'lease.invalid_state')
    http.post(re.compile(f'{samples.ENDPOINT}/leases/'), status_code=409, json=body)
    told = fail(*argv)
    assert r'a\x1b]0;x\x07b\x9b' in told
    assert not re.search('[\x00-\x08\x0b-\x1f\x7f-\x9f]', told)
