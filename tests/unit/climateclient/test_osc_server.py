# SPDX-License-Identifier: Apache-2.0
from tests.unit.climateclient.samples import NOVA, SERVER_ID

ACTION = f'{NOVA}/servers/{SERVER_ID}/action'


def test_wake_up(openstack, http):
    http.get(f'{NOVA}/servers/{SERVER_ID}', json={'server': {'id': SERVER_ID, 'name': 'vm1'}})
    http.post(ACTION, status_code=202)

    assert openstack('server', 'wake', 'up', SERVER_ID) == (0, '', '')

    assert http.last_request.url == ACTION
    assert http.last_request.json() == {'wake_up': {}}


def test_wake_up_by_name_in_all_projects(openstack, http):
    http.get(f'{NOVA}/servers/vm1', status_code=404, json={})
    http.get(
        f'{NOVA}/servers/detail?name=vm1&all_tenants=True',
        json={'servers': [{'id': SERVER_ID, 'name': 'vm1'}]},
    )
    http.post(ACTION, status_code=202)
    status, _, err = openstack('server', 'wake', 'up', 'vm1', '--all-projects')
    assert status == 0, err


def test_wake_up_a_second_time_is_refused_by_nova(openstack, http):
    http.get(f'{NOVA}/servers/{SERVER_ID}', json={'server': {'id': SERVER_ID, 'name': 'vm1'}})
    text = f"Cannot 'wake_up' instance {SERVER_ID} while it is in vm_state active"
    http.post(ACTION, status_code=409, json={'conflictingRequest': {'code': 409, 'message': text}})
    status, _, err = openstack('server', 'wake', 'up', SERVER_ID)
    assert status == 1
    assert text in err
