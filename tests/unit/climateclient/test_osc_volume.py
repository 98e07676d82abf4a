# SPDX-License-Identifier: Apache-2.0
from tests.unit.climateclient.samples import CINDER, VOLUME_ID

VOLUME = f'{CINDER}/volumes/{VOLUME_ID}'


def test_wake_up(openstack, http):
    http.get(VOLUME, json={'volume': {'id': VOLUME_ID, 'name': 'v1'}})
    http.post(f'{VOLUME}/action', status_code=202)

    assert openstack('volume', 'wake', 'up', VOLUME_ID) == (0, '', '')

    assert http.last_request.url == f'{VOLUME}/action'
    assert http.last_request.json() == {'os-wake_up': {}}


def test_wake_up_by_name_in_all_projects(run, http):
    http.get(f'{CINDER}/volumes/v1', status_code=404, json={})
    http.get(
        f'{CINDER}/volumes/detail?name=v1&all_tenants=True',
        json={'volumes': [{'id': VOLUME_ID, 'name': 'v1'}]},
    )
    http.post(f'{VOLUME}/action', status_code=202)
    run('volume', 'wake', 'up', 'v1', '--all-projects')


def test_wake_up_of_a_volume_that_is_there_is_refused_by_cinder(fail, http):
    http.get(VOLUME, json={'volume': {'id': VOLUME_ID, 'name': 'v1'}})
    text = 'Only a volume that is lease-reserved can be woken.'
    body = {'conflict': {'code': 409, 'message': text}}
    http.post(f'{VOLUME}/action', status_code=409, json=body)
    err = fail('volume', 'wake', 'up', VOLUME_ID)
    assert text in err
