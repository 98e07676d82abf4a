# SPDX-License-Identifier: Apache-2.0
"""Limits out of a Keystone, through the real oslo.limit."""

import tempfile
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from oslo_config import cfg
from oslo_limit import limit as library

from climate_core import conf as configuration
from climate_core import exceptions
from climate_core.cloud.limits import Limits
from climate_core.lease import limits
from tests.support.fakes import settings

NAMES = dict.fromkeys(limits.NAMES, 10)


def configure(url: str, **section: Any) -> cfg.ConfigOpts:
    text = [_section('cloud', settings.cloud_options(url)), _section('oslo_limit', section)]
    with tempfile.NamedTemporaryFile('w', suffix='.conf') as file:
        file.write('\n'.join(text))
        file.flush()
        return configuration.load([], [file.name])


def _section(name: str, options: Mapping[str, Any]) -> str:
    return '\n'.join([f'[{name}]', *(f'{key} = {value}' for key, value in options.items())])


def test_defaults_and_limits_of_one_project_are_seen_at_once(fake):
    """What is not registered cannot be reserved."""
    source = Limits(configure(fake.url))
    fake.state.limits.defaults = {'leases': 5}
    assert source.of('demo-id') == dict.fromkeys(NAMES, 0) | {'leases': 5}
    fake.state.limits.defaults = {**NAMES, 'leases': 5}
    fake.state.limits.projects = {('demo-id', 'leases'): 7, ('demo-id', 'reserved_vcpus'): -1}
    assert source.of('demo-id') == {**NAMES, 'leases': 7, 'reserved_vcpus': -1}
    assert source.of('other-id') == {**NAMES, 'leases': 5}


def test_a_question_costs_two_requests(fake):
    fake.state.limits.defaults = NAMES
    source = Limits(configure(fake.url))
    source.of('demo-id')
    before = len(fake.state.requests)
    source.of('demo-id')
    asked = [path for _, path, _ in fake.state.requests[before:]]
    assert asked == ['/identity/v3/registered_limits', '/identity/v3/limits']


def test_recent_limits_cost_no_request_until_they_are_read_again(fake):
    fake.state.limits.defaults = NAMES
    source = Limits(configure(fake.url))
    assert source.recent('demo-id') == NAMES
    before = len(fake.state.requests)
    fake.state.limits.defaults = {**NAMES, 'leases': 5}
    assert source.recent('demo-id') == NAMES
    assert len(fake.state.requests) == before
    assert source.of('demo-id') == source.recent('demo-id') == {**NAMES, 'leases': 5}
    assert source.recent('other-id') == {**NAMES, 'leases': 5}


def test_nothing_of_it_stays_in_the_globals_of_the_library(fake):
    before = library.CONF, library._SDK_CONNECTION
    Limits(configure(fake.url)).of('demo-id')
    assert library.CONF is before[0]
    assert library._SDK_CONNECTION is before[1]
    assert cfg.CONF.oslo_limit.auth_section is None


def test_two_services_in_one_process(fake):
    fake.state.limits.defaults = NAMES
    lost = Limits(configure('http://127.0.0.1:1'))
    with pytest.raises(exceptions.ServiceUnavailable):
        lost.of('demo-id')
    assert Limits(configure(fake.url)).of('demo-id') == NAMES
    with pytest.raises(exceptions.ServiceUnavailable):
        lost.of('demo-id')


def test_limits_are_read_in_several_threads_at_once(fake):
    fake.state.limits.defaults = NAMES
    found: list[dict[str, int]] = []
    threads = [
        threading.Thread(target=lambda: found.append(Limits(configure(fake.url)).of('demo-id')))
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
    source = Limits(configure(fake.url, **options))
    # Alice is no service, and so Keystone does not show her what others have.
    assert source.of('other-id') == NAMES


@pytest.mark.parametrize(
    ('wrong', 'value'), [('model', 'strict_two_level'), ('endpoints', 0), ('endpoints', 2)]
)
def test_a_wrong_setup_is_a_503(fake, wrong, value):
    setattr(fake.state.limits, wrong, value)
    with pytest.raises(exceptions.ServiceUnavailable, match='limits of the project'):
        Limits(configure(fake.url)).of('demo-id')


def test_limits_are_read_after_a_failure(fake):
    fake.state.limits.defaults = NAMES
    source = Limits(configure(fake.url))
    fault = {'method': 'GET', 'path': '/identity/v3/services', 'status': 404, 'count': 1}
    fake.state.faults.append(fault)
    with pytest.raises(exceptions.ServiceUnavailable):
        source.of('demo-id')
    assert source.of('demo-id') == NAMES
