# SPDX-License-Identifier: Apache-2.0
"""``openstack server wake up`` and ``openstack volume wake up``."""

import pytest

from tests.unit.climateclient.samples import CINDER, NOVA, SERVER_ID, VOLUME_ID


@pytest.fixture(
    params=[
        ('server', f'{NOVA}/servers', SERVER_ID, 'wake_up'),
        ('volume', f'{CINDER}/volumes', VOLUME_ID, 'os-wake_up'),
    ],
    ids=['server', 'volume'],
)
def resource(request, http):
    """Give the noun, the URL of the list, the id and the action of a resource that is there."""
    noun, url, resource_id, _ = request.param
    http.get(f'{url}/{resource_id}', json={noun: {'id': resource_id, 'name': 'name1'}})
    http.post(f'{url}/{resource_id}/action', status_code=202)
    return request.param


def test_wake_up_by_id_sends_the_action(openstack, http, resource):
    noun, url, resource_id, action = resource
    assert openstack(noun, 'wake', 'up', resource_id) == (0, '', '')
    assert http.last_request.url == f'{url}/{resource_id}/action'
    assert http.last_request.json() == {action: {}}


def test_wake_up_by_name_in_all_projects(run, http, resource):
    noun, url, resource_id, action = resource
    http.get(f'{url}/name1', status_code=404, json={})
    found = {f'{noun}s': [{'id': resource_id, 'name': 'name1'}]}
    http.get(f'{url}/detail?name=name1&all_tenants=True', json=found)
    run(noun, 'wake', 'up', 'name1', '--all-projects')
    assert http.last_request.json() == {action: {}}


@pytest.mark.parametrize('key', ['conflictingRequest', 'conflict'])
def test_wake_up_shows_the_refusal_of_the_service(fail, http, resource, key):
    noun, url, resource_id, _ = resource
    body = {key: {'code': 409, 'message': 'It is awake.'}}
    http.post(f'{url}/{resource_id}/action', status_code=409, json=body)
    assert 'It is awake.' in fail(noun, 'wake', 'up', resource_id)
