# SPDX-License-Identifier: Apache-2.0
"""A lease service, Keystone, Nova and Cinder at the HTTP edge: all above is the real thing."""

import pytest
import requests_mock
from keystoneauth1 import fixture, session, token_endpoint

from climateclient.client import Client
from tests.support import shell
from tests.unit.climateclient import samples


@pytest.fixture
def http():
    with requests_mock.Mocker() as mocker:
        yield mocker


@pytest.fixture
def client():
    auth = token_endpoint.Token(samples.ENDPOINT, 'a-token')
    return Client(session.Session(auth=auth))


@pytest.fixture
def openstack(http, berlin, capsys, monkeypatch):
    """Run the ``openstack`` command in this process, and give (status, stdout, stderr)."""
    token = fixture.V3Token(user_id='user1', project_id='project1')
    for service_type, url in samples.CATALOGUE.items():
        token.add_service(service_type).add_standard_endpoints(public=url, region='R1')
    http.get(samples.KEYSTONE, json={'version': fixture.V3Discovery(samples.KEYSTONE)})
    http.post(
        f'{samples.KEYSTONE}/auth/tokens', json=token, headers={'X-Subject-Token': 'a-token'}
    )
    http.get(samples.NOVA, json={'version': samples.NOVA_VERSION})
    http.get(f'{samples.CINDER}/', json={'versions': [samples.CINDER_VERSION]})

    return shell.prepared(samples.ENVIRONMENT, capsys, monkeypatch)


@pytest.fixture
def run(openstack):
    """Run a command that must succeed, and give its stdout."""

    def run(*argv):
        status, out, err = openstack(*argv)
        assert status == 0, err
        return out

    return run


@pytest.fixture
def fail(openstack):
    """Run a command that must fail, and give its stderr."""

    def fail(*argv):
        status, _, err = openstack(*argv)
        assert status in (1, 2)
        return err

    return fail


@pytest.fixture
def sent(http):
    """Give the bodies that the lease service got by some methods."""

    def sent(*methods):
        return [
            each.json()
            for each in http.request_history
            if each.method in methods and each.url.startswith(samples.ENDPOINT)
        ]

    return sent


@pytest.fixture
def resources(http):
    """Servers, volumes and a stack, found by their ids or by the names vm1, v2 and web."""
    kinds = (
        ('server', f'{samples.NOVA}/servers', 'vm1', samples.SERVER_ID),
        ('volume', f'{samples.CINDER}/volumes', 'v2', samples.OTHER_ID),
    )
    for noun, url, name, named_id in kinds:
        http.get(f'{url}/{name}', status_code=404, json={})
        found = {f'{noun}s': [{'id': named_id, 'name': name}]}
        http.get(f'{url}/detail?name={name}', json=found)
        for each in (samples.SERVER_ID, samples.OTHER_ID, samples.VOLUME_ID):
            http.get(f'{url}/{each}', json={noun: {'id': each, 'name': 'other'}})
    stack = {'id': samples.STACK_ID, 'stack_name': 'web', 'stack_status': 'CREATE_COMPLETE'}
    http.get(f'{samples.HEAT}/stacks/web', json={'stack': stack})
