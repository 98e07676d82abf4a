# SPDX-License-Identifier: Apache-2.0
"""``--new-server`` of ``openstack lease create``, through the real shell."""

import base64

import pytest

from tests.unit.climateclient import samples

CREATE = ('lease', 'create', 'lease1', '--for', '1h')
FLAVOR = 'f1a40000-0000-4000-8000-000000000001'
IMAGE = 'f1a40000-0000-4000-8000-000000000002'
NETWORK = 'f1a40000-0000-4000-8000-000000000003'
LEASES = f'{samples.ENDPOINT}/leases'


@pytest.fixture(autouse=True)
def cloud(http):
    """Have a cloud with a flavor, an image and a network."""
    http.post(LEASES, status_code=201, json={'lease': samples.lease()})
    http.get(f'{samples.NOVA}/flavors/{FLAVOR}', json={'flavor': {'id': FLAVOR, 'name': 'small'}})
    for base, path, version in (
        (samples.GLANCE, '/v2', 'v2.16'),
        (samples.NEUTRON, '/v2.0', 'v2.0'),
    ):
        link = [{'rel': 'self', 'href': f'{base}{path}/'}]
        versions = [{'id': version, 'status': 'CURRENT', 'links': link}]
        http.get(base, json={'versions': versions})
        http.get(f'{base}/', json={'versions': versions})
    http.get(f'{samples.GLANCE}/v2/images/{IMAGE}', json={'id': IMAGE, 'name': 'cirros'})
    for service, kind in (
        (f'{samples.GLANCE}/v2', 'images'),
        (f'{samples.NEUTRON}/v2.0', 'networks'),
    ):
        http.get(f'{service}/{kind}/none', status_code=404)
        http.get(f'{service}/{kind}', json={kind: []})
    network = {'id': NETWORK, 'name': 'shared'}
    http.get(f'{samples.NEUTRON}/v2.0/networks/{NETWORK}', json={'network': network})


def made(sent):
    (body,) = sent('POST')
    (reservation,) = body['reservations']
    assert reservation.pop('resource_type') == 'virtual:instance'
    return reservation


def test_new_servers_of_an_image_on_a_network(run, sent):
    run(*CREATE, '--new-server', f'flavor={FLAVOR},image={IMAGE},network={NETWORK},count=3')
    assert made(sent) == {
        'server': {
            'name': 'lease1',
            'flavorRef': FLAVOR,
            'imageRef': IMAGE,
            'networks': [{'uuid': NETWORK}],
            'count': 3,
        }
    }


def test_new_server_with_user_data_of_a_file(run, sent, tmp_path):
    script = tmp_path / 'script'
    script.write_text('#!/bin/sh\n')
    text = f'flavor={FLAVOR},name=web,network=none,key_name=key,user_data={script}'
    run(*CREATE, '--new-server', f'{text},security_group=a,security_group=b', '--on-end', 'stop')
    assert made(sent) == {
        'on_end': 'stop',
        'server': {
            'name': 'web',
            'flavorRef': FLAVOR,
            'networks': 'none',
            'key_name': 'key',
            'user_data': base64.b64encode(script.read_bytes()).decode(),
            'security_groups': [{'name': 'a'}, {'name': 'b'}],
        },
    }


def test_new_servers_of_a_server_group(run, sent, http):
    group = {'id': NETWORK, 'name': 'apart', 'policy': 'anti-affinity'}
    http.get(f'{samples.NOVA}/os-server-groups/apart', status_code=404)
    http.get(f'{samples.NOVA}/os-server-groups', json={'server_groups': [group]})
    run(*CREATE, '--new-server', f'flavor={FLAVOR},server_group=apart')
    assert made(sent)['server']['scheduler_hints'] == {'group': NETWORK}


@pytest.mark.parametrize(
    ('text', 'said'),
    [
        ('image=cirros', 'flavor=<name or id> is missing'),
        ('flavor=a,flavour=b', '"flavour=b" is not one of name, key_name'),
        ('flavor=a,flavor=b', 'flavor is given twice'),
        (f'flavor={FLAVOR},count=many', 'count must be a number from 1 on, not "many"'),
        (f'flavor={FLAVOR},image=none', 'image: there is no image "none" that you may use'),
        (f'flavor={FLAVOR},network=none,network=none', 'network: there is no network "none" that'),
        (f'flavor={FLAVOR},user_data=/none', 'user_data: [Errno 2] No such file'),
    ],
)
def test_what_cannot_be_read_is_refused_and_says_what_would_be_right(fail, sent, text, said):
    told = ' '.join(fail(*CREATE, '--new-server', text).split())
    assert said in told
    assert 'Example: --new-server flavor=m1.small,image=cirros' in told
    assert not sent('POST')
