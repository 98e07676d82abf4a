# SPDX-License-Identifier: Apache-2.0
"""Limits out of a Keystone, through the real oslo.limit."""

import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from oslo_config import cfg
from oslo_limit import limit as library

from climate_core import conf as configuration
from climate_core import exceptions
from climate_core.cloud import Cloud
from climate_core.cloud import limits as cloud_limits
from climate_core.cloud.limits import Limits
from climate_core.conf import limits as conf_group
from climate_core.db import project_limits
from tests.support.fakes import settings

NAMES = dict.fromkeys(project_limits.NAMES, 10)
DEFAULTS = {name: most for name, (most, _) in conf_group.PROJECT_LIMITS.items()}


def configure(url: str, own: Mapping[str, Any] | None = None, **section: Any) -> cfg.ConfigOpts:
    """Return a configuration; ``own`` are options of ``[limits]``, the others of oslo.limit."""
    text = [
        _section('cloud', settings.cloud_options(url)),
        _section('oslo_limit', section),
        _section('limits', own or {}),
    ]
    with tempfile.NamedTemporaryFile('w', suffix='.conf') as file:
        file.write('\n'.join(text))
        file.flush()
        return configuration.load([], [file.name])


def make(*args: Any, **kw: Any) -> Limits:
    conf = configure(*args, **kw)
    return Limits(conf, Cloud(conf))


def _section(name: str, options: Mapping[str, Any]) -> str:
    return '\n'.join([f'[{name}]', *(f'{key} = {value}' for key, value in options.items())])


def test_defaults_and_limits_of_one_project_are_seen_at_once(fake):
    """A name that is not registered has the limit of the configuration."""
    source = make(fake.url)
    fake.state.limits.defaults = {'leases': 5}
    assert source.read_limits('demo-id') == DEFAULTS | {'leases': 5}
    fake.state.limits.defaults = {**NAMES, 'leases': 5}
    fake.state.limits.projects = {('demo-id', 'leases'): 7, ('demo-id', 'reserved_vcpus'): -1}
    assert source.read_limits('demo-id') == {**NAMES, 'leases': 7, 'reserved_vcpus': -1}
    assert source.read_limits('other-id') == {**NAMES, 'leases': 5}


def test_a_question_costs_two_requests(fake):
    fake.state.limits.defaults = NAMES
    source = make(fake.url)
    source.read_limits('demo-id')
    before = len(fake.state.requests)
    source.read_limits('demo-id')
    asked = [path for _, path, _ in fake.state.requests[before:]]
    assert asked == ['/identity/v3/registered_limits', '/identity/v3/limits']


def test_recent_limits_cost_no_request_until_they_are_read_again(fake):
    fake.state.limits.defaults = NAMES
    source = make(fake.url)
    assert source.recent('demo-id') == NAMES
    before = len(fake.state.requests)
    fake.state.limits.defaults = {**NAMES, 'leases': 5}
    assert source.recent('demo-id') == NAMES
    assert len(fake.state.requests) == before
    assert source.read_limits('demo-id') == source.recent('demo-id') == {**NAMES, 'leases': 5}
    assert source.recent('other-id') == {**NAMES, 'leases': 5}


def test_nothing_of_it_stays_in_the_globals_of_the_library(fake):
    before = library.CONF, library._SDK_CONNECTION
    make(fake.url).read_limits('demo-id')
    assert library.CONF is before[0]
    assert library._SDK_CONNECTION is before[1]
    assert cfg.CONF.oslo_limit.auth_section is None


def test_connection_without_own_identity_trusts_the_certificates_of_the_cloud(fake):
    conf = configure(fake.url)
    conf.set_override('cafile', '/etc/ca.pem', 'cloud')
    fake.state.limits.defaults = NAMES
    source = Limits(conf, Cloud(conf))
    source.read_limits('demo-id')
    assert source._enforcer.connection.session.verify == '/etc/ca.pem'


def test_two_services_in_one_process(fake):
    fake.state.limits.defaults = NAMES
    lost = make('http://127.0.0.1:1')
    with pytest.raises(exceptions.ServiceUnavailable):
        lost.read_limits('demo-id')
    assert make(fake.url).read_limits('demo-id') == NAMES
    with pytest.raises(exceptions.ServiceUnavailable):
        lost.read_limits('demo-id')


def test_limits_are_read_in_several_threads_at_once(fake):
    fake.state.limits.defaults = NAMES
    found: list[dict[str, int]] = []
    threads = [
        threading.Thread(target=lambda: found.append(make(fake.url).read_limits('demo-id')))
        for _ in range(5)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [NAMES] * 5


def test_an_identity_of_its_own(fake):
    fake.state.limits.defaults = NAMES
    fake.state.limits.projects = {('other-id', 'leases'): 1}
    options = settings.cloud_options(fake.url) | {'username': 'alice', 'project_name': 'demo'}
    del options['timeout']
    source = make(fake.url, **options)
    # Alice is no service, and so Keystone does not show her what others have.
    assert source.read_limits('other-id') == NAMES


@pytest.mark.parametrize(
    ('wrong', 'value'), [('model', 'strict_two_level'), ('endpoints', 0), ('endpoints', 2)]
)
def test_a_wrong_setup_is_a_503(fake, wrong, value):
    fake.state.limits.defaults = NAMES
    setattr(fake.state.limits, wrong, value)
    with pytest.raises(exceptions.ServiceUnavailable, match='limits of the project'):
        make(fake.url).read_limits('demo-id')


def test_limits_are_read_after_a_failure(fake):
    fake.state.limits.defaults = NAMES
    source = make(fake.url)
    fault = {'method': 'GET', 'path': '/identity/v3/services', 'status': 404, 'count': 1}
    fake.state.faults.append(fault)
    with pytest.raises(exceptions.ServiceUnavailable):
        source.read_limits('demo-id')
    assert source.read_limits('demo-id') == NAMES


def test_every_limit_has_a_finite_default():
    assert list(DEFAULTS) == list(project_limits.NAMES)
    assert min(DEFAULTS.values()) > 0


def test_without_registered_limits_keystone_is_asked_once_for_all_projects(fake):
    source = make(fake.url, {'leases': 3})
    assert source.read_limits('demo-id') == DEFAULTS | {'leases': 3}
    before = len(fake.state.requests)
    assert source.read_limits('other-id') == source.recent('demo-id') == DEFAULTS | {'leases': 3}
    assert len(fake.state.requests) == before


def test_limit_that_is_registered_later_applies_after_a_while(fake, monkeypatch):
    monkeypatch.setattr(cloud_limits, 'REGISTERED_SECONDS', 0.0)
    source = make(fake.url)
    assert source.read_limits('demo-id') == DEFAULTS
    fake.state.limits.defaults = {'leases': 5}
    assert source.read_limits('demo-id')['leases'] == 5


def test_library_is_not_imported_without_registered_limits(fake, tmp_path):
    """It imports openstacksdk, which takes 11 MiB."""
    file = tmp_path / 'climate.conf'
    file.write_text(_section('cloud', settings.cloud_options(fake.url)))
    code = (
        'import sys\n'
        'from climate_core import conf as configuration\n'
        'from climate_core.cloud import Cloud\n'
        'from climate_core.cloud.limits import Limits\n'
        f'conf = configuration.load([], [{str(file)!r}])\n'
        'assert Limits(conf, Cloud(conf)).read_limits("demo-id")["leases"] > 0\n'
        'print(*{"openstack", "oslo_limit.limit"} & sys.modules.keys())\n'
    )
    done = subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ''


@pytest.mark.parametrize('driver', ['configured', 'none'])
def test_other_drivers_ask_nobody(fake, driver):
    fake.state.limits.defaults = NAMES
    source = make(fake.url, {'driver': driver})
    assert source.read_limits('demo-id') == (DEFAULTS if driver == 'configured' else None)
    assert source.recent('demo-id') == source.read_limits('demo-id')
    assert not fake.state.requests


def test_limits_of_times_are_read_if_they_are_registered(fake):
    source = make(fake.url, {'max_lease_seconds': 60})
    assert source.read_limits('demo-id') == DEFAULTS
    fake.state.limits.defaults = {'max_lease_seconds': 3600}
    fake.state.limits.projects = {('demo-id', 'max_lease_seconds'): 7200}
    source = make(fake.url, {'max_lease_seconds': 60})
    assert source.read_limits('demo-id') == DEFAULTS | {'max_lease_seconds': 7200}
    assert source.read_limits('other-id') == DEFAULTS | {'max_lease_seconds': 3600}


def test_without_credentials_the_configured_limits_apply():
    conf = configuration.load([], [])
    assert Limits(conf, Cloud(conf)).read_limits('demo-id') == DEFAULTS


def test_options_that_are_all_unlimited_are_no_limits(fake):
    unlimited = dict.fromkeys(project_limits.NAMES, -1)
    assert make(fake.url, {'driver': 'configured', **unlimited}).read_limits('demo-id') is None


@pytest.mark.parametrize('status', [403, 404])
def test_keystone_that_does_not_list_limits_leaves_the_configured_ones(fake, status):
    fake.state.limits.defaults = NAMES
    path = '/identity/v3/registered_limits'
    fake.state.faults.append({'method': 'GET', 'path': path, 'status': status, 'count': 1})
    assert make(fake.url).read_limits('demo-id') == DEFAULTS


def test_keystone_that_fails_is_a_503_and_not_unlimited(fake):
    path = '/identity/v3/registered_limits'
    fake.state.faults.append({'method': 'GET', 'path': path, 'status': 500, 'count': 1})
    with pytest.raises(exceptions.ServiceUnavailable, match='limits of the project'):
        make(fake.url).read_limits('demo-id')
