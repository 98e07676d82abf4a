# SPDX-License-Identifier: Apache-2.0
"""``--new-volume`` of ``openstack lease create``, through the real shell."""

import pytest

from tests.unit.climateclient import samples

CREATE = ('lease', 'create', 'lease1', '--for', '1h')
SNAPSHOT = 'f1a40000-0000-4000-8000-000000000004'
LEASES = f'{samples.ENDPOINT}/leases'


@pytest.fixture(autouse=True)
def cloud(http):
    """Have a cloud with a snapshot."""
    http.post(LEASES, status_code=201, json={'lease': samples.lease()})
    http.get(f'{samples.CINDER}/snapshots/{SNAPSHOT}', json={'snapshot': {'id': SNAPSHOT}})


def test_new_volumes_of_a_type(run, sent):
    run(*CREATE, '--new-volume', 'size=10,type=ssd,count=2', '--on-end', 'snapshot')
    (body,) = sent('POST')
    volume = {'name': 'lease1', 'size': 10, 'volume_type': 'ssd', 'count': 2}
    asked = {'resource_type': 'virtual:volume', 'volume': volume, 'on_end': 'snapshot'}
    assert body['reservations'] == [asked]


def test_new_volume_of_a_snapshot(run, sent):
    run(*CREATE, '--new-volume', f'size=1,snapshot={SNAPSHOT},name=data,availability_zone=az1')
    (body,) = sent('POST')
    (reservation,) = body['reservations']
    assert reservation['volume'] == {
        'name': 'data',
        'size': 1,
        'snapshot_id': SNAPSHOT,
        'availability_zone': 'az1',
    }


@pytest.mark.parametrize(
    ('text', 'said'),
    [
        ('type=ssd', 'size=<GiB> is missing'),
        ('size=10,volume_type=ssd', '"volume_type=ssd" is not one of size, name'),
        ('size=ten', 'size must be a number from 1 on, not "ten"'),
        ('size=1,count=0', 'count must be a number from 1 on, not "0"'),
    ],
)
def test_what_cannot_be_read_is_refused_and_says_what_would_be_right(fail, sent, text, said):
    told = ' '.join(fail(*CREATE, '--new-volume', text).split())
    assert said in told
    assert 'Example: --new-volume size=10,type=ssd,count=2' in told
    assert not sent('POST')
