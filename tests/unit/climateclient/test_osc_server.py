# SPDX-License-Identifier: Apache-2.0
from tests.unit.climateclient.samples import NOVA, SERVER_ID

ACTION = f'{NOVA}/servers/{SERVER_ID}/action'


def test_wake_up(openstack, http):
    http.get(f'{NOVA}/servers/{SERVER_ID}', json={'server': {'id': SERVER_ID, 'name': 'vm1'}})
    http.post(ACTION, status_code=202)

    assert openstack('server', 'wake', 'up', SERVER_ID) == (0, '', '')

    assert http.last_request.url == ACTION
    assert http.last_request.json() == {'wake_up': {}}


def test_wake_up_by_name_in_all_projects(run, http):
    http.get(f'{NOVA}/servers/vm1', status_code=404, json={})
    http.get(
        f'{NOVA}/servers/detail?name=vm1&all_tenants=True',
        json={'servers': [{'id': SERVER_ID, 'name': 'vm1'}]},
    )
    http.post(ACTION, status_code=202)
    run('server', 'wake', 'up', 'vm1', '--all-projects')


def test_wake_up_a_second_time_is_refused_by_nova(fail, http):
    http.get(f'{NOVA}/servers/{SERVER_ID}', json={'server': {'id': SERVER_ID, 'name': 'vm1'}})
    text = f"Cannot 'wake_up' instance {SERVER_ID} while it is in vm_state active"
    http.post(ACTION, status_code=409, json={'conflictingRequest': {'code': 409, 'message': text}})
    err = fail('server', 'wake', 'up', SERVER_ID)
    assert text in err
