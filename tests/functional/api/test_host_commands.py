# SPDX-License-Identifier: Apache-2.0
"""The commands about hosts against the service over HTTP: ours, and python-blazarclient 4.6.0's.

Its ``host unset`` does not load, for its entry point names another class, so that is sent through
its library.
"""

import datetime
import functools
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from blazarclient import client as blazar
from keystoneauth1 import noauth, session

from climate_core import conf as configuration
from climate_core import policies
from climate_core.cmd import manage
from climate_core.cmd.manage import serve
from climate_core.db.engine import Database
from tests.support import hosts, shell
from tests.support.fakes import cloud_server, settings

Run = Callable[..., Any]


@pytest.fixture
def config(tmp_path: pathlib.Path, hosts_cloud: cloud_server.Server) -> pathlib.Path:
    """Return a climate.conf for a service that lets everybody look after hosts."""
    lines = [f'{rule.name}: "@"' for rule in policies.list_rules() if ':hosts:' in rule.name]
    (tmp_path / 'policy.yaml').write_text('\n'.join(lines))
    options = settings.cloud_options(hosts_cloud.url).items()
    file = tmp_path / 'climate.conf'
    file.write_text(
        '\n'.join(
            [
                '[cloud]',
                *(f'{name} = {value}' for name, value in options),
                '[hosts]',
                'enrol_seconds = 0',
                '[oslo_policy]',
                f'policy_file = {tmp_path}/policy.yaml',
            ]
        )
    )
    return file


@pytest.fixture
def url(tmp_path: pathlib.Path, config: pathlib.Path) -> Iterator[str]:
    words = ['serve', '--noauth', '--port', '0', '--state-dir', str(tmp_path)]
    with serve.serving(configuration.load(words, [str(config)], cli=[manage.command()])) as found:
        yield found


@pytest.fixture
def run(url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command that must work, and give what it printed; with -f json, what that says."""
    environment = {'OS_AUTH_TYPE': 'none', 'OS_ENDPOINT': url}
    openstack = shell.prepared(environment, capsys, monkeypatch)

    def run(*argv: str) -> Any:
        status, out, err = openstack(*argv)
        assert status == 0, err
        if 'json' not in argv:
            return out
        # Its first line may be a sentence.
        return json.loads(out[min(out.index(each) for each in '{[' if each in out) :])

    return run


@pytest.fixture
def blazar_run(run: Run) -> Run:
    """Run a command of python-blazarclient."""
    return functools.partial(run, 'reservation')


def test_own_commands_change_hosts(run: Run, tmp_path: pathlib.Path, config: pathlib.Path) -> None:
    host = functools.partial(run, 'lease', 'host')
    made = host('create', 'cn1', '--pool', 'gpu', '--extra', 'rack=7', '-f', 'json')
    assert (made['id'], made['pool'], made['extra']) == ('1', 'gpu', {'rack': '7'})
    conf = configuration.load([], [str(config)])
    conf.set_override('connection', f'sqlite:///{tmp_path}/climate.sqlite', group='database')
    lease = hosts.promise(Database(conf), 1)
    changed = host(
        'set', 'cn1', '--disable', '--reason', 'disk', '--extra', 'rack=8', '-f', 'json'
    )
    assert (changed['reservable'], changed['disabled_reason']) == (False, 'disk')
    assert [each['lease_id'] for each in changed['reservations']] == [lease.id]
    assert host('set', 'cn1', '--enable', '-f', 'json')['reservable'] is True
    (row,) = host('allocation', 'list', '--lease', lease.id, '-f', 'json')
    assert row['Lease'] == lease.id
    host('property', 'set', 'rack', '--private')
    assert host('property', 'list', '-f', 'json') == []
    assert host('unset', 'cn1', '--extra', 'rack', '-f', 'json')['extra'] == {}
    host('create', 'cn2')
    assert [each['Name'] for each in host('list', '-f', 'json')] == ['cn1', 'cn2']
    host('delete', 'cn2')
    assert [each['ID'] for each in host('list', '--pool', 'gpu', '-f', 'json')] == ['1']


def test_calendar_shows_what_is_promised_of_hosts(
    run: Run, tmp_path: pathlib.Path, config: pathlib.Path
) -> None:
    run('lease', 'host', 'create', 'cn1')
    conf = configuration.load([], [str(config)])
    conf.set_override('connection', f'sqlite:///{tmp_path}/climate.sqlite', group='database')
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    lease = hosts.promise(Database(conf), 1, soon)
    (row,) = run('lease', 'calendar', '--hosts', '-f', 'json')
    assert (row['Host'], row['Bars'][0]['lease_id']) == ('cn1', lease.id)
    (bar,) = run('lease', 'calendar', '-f', 'json')
    assert (bar['Lease ID'], bar['Project']) == (lease.id, lease.project_id)
    assert '#' in run('lease', 'calendar', '--hosts')
    assert run('lease', 'calendar', '--hosts', '-f', 'json', '--days', '92') == [row]


def test_life_of_a_host(blazar_run: Run) -> None:
    made = blazar_run(
        'host', 'create', 'cn1', '--extra', 'gpu=True', '--extra', 'rack=7', '-f', 'json'
    )
    assert (made['id'], made['hypervisor_hostname'], made['rack']) == ('1', 'cn1', '7')
    row = {'vcpus': 64, 'memory_mb': 262144, 'local_gb': 2000}
    assert blazar_run('host', 'list', '-f', 'json') == [
        {'id': '1', 'hypervisor_hostname': 'cn1', **row}
    ]
    for name in ('1', 'cn1'):
        assert blazar_run('host', 'show', name, '-f', 'json')['gpu'] == 'True'
    assert blazar_run('host', 'set', '--extra', 'rack=8', 'cn1') == 'Updated host: cn1\n'
    assert blazar_run('host', 'show', '1', '-f', 'json')['rack'] == '8'
    blazar_run('host', 'set', '--extra', 'disabled=True', 'cn1')
    assert blazar_run('host', 'show', '1', '-f', 'json')['reservable'] is False
    assert blazar_run('host', 'delete', 'cn1') == 'Deleted host: cn1\n'
    assert blazar_run('host', 'list', '-f', 'json') == []


def test_extra_property_is_unset_by_none(url: str, blazar_run: Run) -> None:
    blazar_run('host', 'create', 'cn1', '--extra', 'gpu=True')
    client = blazar.Client(session=session.Session(auth=noauth.NoAuth(endpoint=url)))
    assert 'gpu' not in client.host.update('1', values={'gpu': None})


def test_properties_of_blazar_are_listed_and_made_private(blazar_run: Run) -> None:
    for name, rack in (('cn1', '7'), ('cn2', '8')):
        blazar_run('host', 'create', name, '--extra', f'rack={rack}', '-f', 'json')
    blazar_run('host', 'property', 'set', 'rack', '--private')
    assert blazar_run('host', 'property', 'list', '-f', 'json') == []
    listed = blazar_run('host', 'property', 'list', '--detail', '--all', '-f', 'json')
    assert listed == [{'property': 'rack', 'private': True, 'property_values': ['7', '8']}]
    blazar_run('host', 'property', 'set', 'rack', '--public')
    shown = blazar_run('host', 'property', 'show', 'rack', '-f', 'json')
    assert shown['property'] == 'rack'


def test_allocations_of_blazar_are_listed_by_host(
    blazar_run: Run, tmp_path: pathlib.Path, config: pathlib.Path
) -> None:
    for name in ('cn1', 'cn2'):
        blazar_run('host', 'create', name)
    conf = configuration.load([], [str(config)])
    conf.set_override('connection', f'sqlite:///{tmp_path}/climate.sqlite', group='database')
    lease = hosts.promise(Database(conf), 1)
    listed = blazar_run('allocation', 'list', 'host', '-f', 'json')
    found = {each['resource_id']: each['reservations'] for each in listed}
    assert [each['lease_id'] for each in found['1']] == [lease.id]
    assert found['2'] == []
    shown = blazar_run('allocation', 'show', 'host', 'cn1', '-f', 'json')
    assert lease.id in str(shown)
