# SPDX-License-Identifier: Apache-2.0
"""New servers and volumes: what the API accepts, Nova and Cinder accept too."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from climate_core.db.engine import Database
from climate_core.plugins.server import ServerPlugin
from climate_core.plugins.volume import VolumePlugin
from tests.functional.api import world
from tests.support.fakes import cinder, cloud_server, flavors, neutron, neutron_networks, settings

SERVER = {
    'name': 'web',
    'flavorRef': 'small',
    'block_device_mapping_v2': [{'source_type': 'blank', 'boot_index': 0}],
}
VOLUME = {'name': 'disk', 'size': 1}
LEASE = {'name': 'lease1', 'start_date': '2099-01-01 10:00', 'end_date': '2099-01-01 12:00'}

UNKNOWN = '99999999-9999-4999-8999-999999999999'
SOURCE = '55555555-5555-4555-8555-555555555555'
SMALL, HUNGRY, LARGE = (f'{number}' * 8 + '-0000-4000-8000-000000000000' for number in (1, 2, 3))
#: The flavor small has 512 MiB of memory and a disk of 1 GiB.
IMAGES = {
    SMALL: {'size': 2**30, 'min_ram': 512, 'min_disk': 1},
    HUNGRY: {'size': 1, 'min_ram': 513},
    LARGE: {'size': 2**30 + 1},
}
FOREIGN, ROUTERS, OUTER, USED = (
    f'{number}' * 8 + '-1111-4111-8111-111111111111' for number in range(4)
)
PORTS: dict[str, dict[str, Any]] = {
    FOREIGN: {'project_id': 'other-id'},
    ROUTERS: {'device_id': UNKNOWN, 'device_owner': neutron_networks.INTERFACE},
    OUTER: {'network_id': neutron.PUBLIC},
    USED: {'device_id': UNKNOWN, 'device_owner': 'compute:nova'},
}
#: Block devices.
ROOT = {'source_type': 'image', 'destination_type': 'local', 'uuid': SMALL, 'boot_index': 0}
DATA = {'source_type': 'blank', 'destination_type': 'volume', 'volume_size': 1}
LOCAL = {'source_type': 'blank', 'destination_type': 'local'}
USER = {'X-Auth-Token': 'alice-token', 'X-User-Id': 'alice-id', 'X-Project-Id': 'demo-id'}

Ask = Callable[..., Any]


@pytest.fixture(scope='module')
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cloud_server.Server]:
    with cloud_server.running(tmp_path_factory.mktemp('cloud') / 'journal') as server:
        flavors.add(server.state, id='small')
        own: dict[str, Any] = {'project_id': 'demo-id', 'status': 'active'}
        for name, needs in IMAGES.items():
            server.state.images[name] = {'id': name, 'name': 'image', **own, **needs}
        cinder.add(server.state, id=SOURCE, status='available', size=3)
        own = {'network_id': neutron_networks.add(server.state)['id']}
        for name, port in PORTS.items():
            neutron_networks.add_port(server.state, id=name, **{**own, **port})
        alice = server.state.users['alice-id']
        token = server.state.token(alice, alice['project_id'], alice['roles'], None)
        server.state.tokens['alice-token'] = server.state.tokens[token]
        yield server


@pytest.fixture(scope='module')
def application(
    tmp_path_factory: pytest.TempPathFactory, cloud: cloud_server.Server
) -> Iterator[Any]:
    plugins = (ServerPlugin, VolumePlugin)
    options = settings.cloud_options(cloud.url).items()
    directory = tmp_path_factory.mktemp('climate')
    conf = world.configure(directory, *(('cloud', name, value) for name, value in options))
    for plugin in plugins:
        conf.register_opts(plugin.options, group=plugin.resource_type)
    with world.running(conf, Database(conf), *plugins) as application:
        yield application


@pytest.fixture
def ask(application: Any) -> Ask:
    def ask(*reservations: dict[str, Any], dry_run: bool = False, **lease: Any) -> Any:
        body = {**LEASE, **lease, 'reservations': list(reservations)}
        path = '/v1/leases?dry_run=true' if dry_run else '/v1/leases'
        return world.ask(application, 'POST', path, body, USER)

    return ask


def server(**values: Any) -> dict[str, Any]:
    return {'resource_type': 'virtual:instance', 'server': {**SERVER, **values}}


def on_host(**values: Any) -> dict[str, Any]:
    return {
        'resource_type': 'virtual:instance',
        'server': {'name': 'a', 'flavorRef': 'small'} | values,
    }


def devices(*disks: dict[str, Any], **values: Any) -> dict[str, Any]:
    return on_host(block_device_mapping_v2=[*disks], **values)


def volume(**values: Any) -> dict[str, Any]:
    return {'resource_type': 'virtual:volume', 'volume': {**VOLUME, **values}}


@pytest.mark.parametrize('dry_run', [True, False])
def test_integers_with_a_fraction_of_zero_are_integers(ask: Ask, dry_run: bool) -> None:
    disks = [{'source_type': 'blank', 'volume_size': 1.0, 'boot_index': 0.0}]
    wanted = [server(count=2.0, block_device_mapping_v2=disks)]
    if not dry_run:
        # The fake Cinder does not say what room its pools have.
        wanted.append(volume(count=2.0, size=3.0))
    kind = {'kind': 'scheduled'} if dry_run else {'kind': 'retry', 'max_retries': 2.0}
    answer = ask(*wanted, dry_run=dry_run, before_start=[60.0], **kind)
    assert answer.status_code == (200 if dry_run else 201), answer.text
    floats: list[str] = []
    answered = json.loads(answer.text, parse_float=floats.append)
    assert floats == []
    assert dry_run or len(answered['lease']['reservations']) == 4


@pytest.mark.parametrize(
    ('wanted', 'field'),
    [
        (server(flavorRef='none'), 'server.flavorRef'),
        (server(flavorRef='..'), 'server.flavorRef'),
        (server(key_name='..'), 'server.key_name'),
        (server(imageRef=UNKNOWN), 'server.imageRef'),
        (server(key_name='none'), 'server.key_name'),
        (server(security_groups=[{'name': 'none'}]), 'server.security_groups[0].name'),
        (server(security_groups=[{'name': 'twins'}]), 'server.security_groups[0].name'),
        (server(networks=[{'uuid': UNKNOWN}]), 'server.networks[0].uuid'),
        (server(networks=[{'port': UNKNOWN}]), 'server.networks[0].port'),
        (server(scheduler_hints={'group': UNKNOWN}), 'server.scheduler_hints.group'),
        (
            server(scheduler_hints={'different_host': [UNKNOWN]}),
            'server.scheduler_hints.different_host[0]',
        ),
        (server(name='n' * 254, count=2), 'server.name'),
        (volume(name='n' * 254, count=2), 'volume.name'),
        (volume(volume_type='none'), 'volume.volume_type'),
        (volume(imageRef=UNKNOWN), 'volume.imageRef'),
        (volume(snapshot_id=UNKNOWN), 'volume.snapshot_id'),
        (volume(source_volid=UNKNOWN), 'volume.source_volid'),
        (server(block_device_mapping_v2=[{}]), 'server.block_device_mapping_v2[0].source_type'),
        (
            server(
                block_device_mapping_v2=[
                    {'source_type': 'volume', 'destination_type': 'volume', 'uuid': SOURCE}
                ],
                count=2,
            ),
            'server.block_device_mapping_v2[0].uuid',
        ),
        (on_host(imageRef=HUNGRY), 'server.flavorRef'),
        (on_host(imageRef=LARGE), 'server.flavorRef'),
        (volume(imageRef=LARGE), 'volume.size'),
        (volume(source_volid=SOURCE, size=2), 'volume.size'),
        (volume(source_volid=SOURCE, size=3, imageRef=SMALL), 'volume.source_volid'),
        (volume(availability_zone='none'), 'volume.availability_zone'),
        (server(availability_zone='none'), 'server.availability_zone'),
        (server(networks='auto'), 'server.networks'),
        (server(networks=[{'uuid': neutron.PUBLIC}]), 'server.networks[0].uuid'),
        (server(networks=[{'port': FOREIGN}]), 'server.networks[0].port'),
        (server(networks=[{'port': ROUTERS}]), 'server.networks[0].port'),
        (server(networks=[{'port': OUTER}]), 'server.networks[0].port'),
        (server(networks=[{'port': neutron.PORT}] * 2), 'server.networks[1].port'),
        (
            server(networks=[{'port': neutron.PORT, 'fixed_ip': '192.0.2.1'}]),
            'server.networks[0].fixed_ip',
        ),
        (devices(), 'server.imageRef'),
        (devices(DATA), 'server.block_device_mapping_v2'),
        (devices(DATA, imageRef=SMALL), 'server.block_device_mapping_v2'),
        (
            devices(ROOT, {**DATA, 'boot_index': 0}, imageRef=SMALL),
            'server.block_device_mapping_v2',
        ),
        (
            devices(ROOT, {**DATA, 'boot_index': 2}, imageRef=SMALL),
            'server.block_device_mapping_v2',
        ),
        (
            devices(ROOT, {**DATA, 'device_name': 'vda'}, imageRef=SMALL),
            'server.block_device_mapping_v2[1].device_name',
        ),
        (
            devices({**DATA, 'boot_index': 0, 'disk_bus': 'pci'}),
            'server.block_device_mapping_v2[0].disk_bus',
        ),
        (
            devices({**DATA, 'source_type': 'image', 'uuid': LARGE, 'boot_index': 0}),
            'server.block_device_mapping_v2[0].volume_size',
        ),
        (
            devices({**DATA, 'boot_index': 0}, {**LOCAL, 'volume_size': 1}),
            'server.block_device_mapping_v2',
        ),
        (
            devices(
                {**DATA, 'boot_index': 0}, {**LOCAL, 'guest_format': 'swap', 'volume_size': 9}
            ),
            'server.block_device_mapping_v2',
        ),
        (devices({**ROOT, 'uuid': LARGE}, imageRef=LARGE), 'server.flavorRef'),
    ],
)
def test_what_cannot_be_made_is_rejected_at_the_request(
    ask: Ask, cloud: cloud_server.Server, wanted: dict[str, Any], field: str
) -> None:
    """The dry run says the same; what is not there is asked for once."""
    for kind in ('scheduled', 'immediate'):
        before = len(cloud.state.requests)
        created = ask(wanted, kind=kind)
        assert created.status_code == 400, created.text
        assert created.json['field'] == f'reservations[0].{field}'
        sent = [path for _, path, _ in cloud.state.requests[before:]]
        assert len([path for path in sent if UNKNOWN in path]) <= 1, sent
        told = ask(wanted, kind=kind, dry_run=True).json['dry_run']
        assert not told['granted']
        assert created.json in told['refusals'], told
        # What was asked for is what the kind requires.
        assert 'kind' not in [each['field'] for each in told['refusals']], told


def test_port_in_two_reservations_is_rejected(ask: Ask) -> None:
    wanted = [server(networks=[{'port': neutron.PORT}]), server(networks=[{'port': neutron.PORT}])]
    created = ask(*wanted)
    assert created.status_code == 400, created.text
    assert created.json['field'] == 'reservations[1].server.networks[0].port'
    assert created.json['error_message'].startswith(f'{created.json["field"]}: must be given once')
    assert created.json in ask(*wanted, dry_run=True).json['dry_run']['refusals']


@pytest.mark.parametrize(
    'wanted',
    [
        on_host(imageRef=SMALL),
        server(imageRef=LARGE),
        volume(imageRef=LARGE, size=2),
        volume(source_volid=SOURCE, size=3),
        volume(availability_zone='nova'),
        server(availability_zone='nova', networks='none'),
        server(networks=[{'port': neutron.PORT}, {'uuid': neutron.NETWORK}]),
        devices(ROOT, {**DATA, 'device_name': 'vdb'}, imageRef=SMALL),
        devices({**DATA, 'boot_index': '0'}, {**DATA, 'boot_index': -1}),
    ],
)
def test_what_an_image_or_a_volume_needs_is_accepted(ask: Ask, wanted: dict[str, Any]) -> None:
    """The size of a root disk that is a volume is not that of the flavor."""
    made = ask(wanted, kind='immediate')
    assert made.status_code == 201, made.text


@pytest.mark.parametrize(
    ('wanted', 'field'),
    [
        (server(networks=[{'port': USED}]), 'server.networks[0].port'),
        (server(availability_zone='off'), 'server.availability_zone'),
    ],
)
def test_what_may_be_right_at_the_start_is_rejected_only_if_it_is_needed_now(
    ask: Ask, wanted: dict[str, Any], field: str
) -> None:
    later = LEASE['start_date']
    for kind, start, is_rejected in (
        ('immediate', later, True),
        ('scheduled', 'now', True),
        ('scheduled', later, False),
        ('retry', 'now', False),
    ):
        told = ask(wanted, kind=kind, start_date=start, dry_run=True).json['dry_run']
        fields = [each.get('field') for each in told['refusals']]
        assert (kind, f'reservations[0].{field}' in fields) == (kind, is_rejected), told
    created = ask(wanted, kind='immediate')
    assert (created.status_code, created.json['field']) == (400, f'reservations[0].{field}')
