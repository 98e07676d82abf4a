# SPDX-License-Identifier: Apache-2.0
"""What Climate accepts for new servers, the schema of POST /servers accepts too."""

import base64
import contextlib
import operator
from unittest import mock

import hypothesis
import pytest
from hypothesis import strategies as st
from nova import block_device, exception, objects
from nova import context as nova_context
from nova.api.openstack.compute.schemas import servers as schema
from nova.api.validation import validators
from nova.compute import api as compute

from climate_core import exceptions
from climate_core.api import reservations, validation
from climate_core.cloud import servers
from climate_core.cloud.servers import NOVA
from climate_core.plugins import provisioned_plugin, server_checks, server_spec
from climate_core.plugins.server import ServerPlugin
from tests.support import leases as build

KEY = 'block_device_mapping_v2'
OURS = reservations.of_plugin(ServerPlugin)
NOVAS = validators._SchemaValidator(schema.create_v290)
ID = '11111111-1111-4111-8111-111111111111'
#: Letters of every kind that a rule of Nova is about: blanks, controls, no letter yet, emoji.
LETTERS = (
    'a -_:./,@%=\t\n\x00\x1f\x7f\x85\x9b\xa0\xad\u0378\u200b\u2028\u3000\ue000\ufffe\uffff'
    '\U0001f600é'
)
NAMES = st.one_of(
    st.text(LETTERS, max_size=4),
    st.sampled_from([255, 254, 253, 252, 256]).map('n'.__mul__),
    st.sampled_from(['web', 'a b', ' a', 'a ', '\xa0a', 'a\n']),
)
NUMBERS = st.one_of(
    st.integers(-(2**33), 2**33),
    st.sampled_from(['0', '1', '01', '-1', '4294967296', '', '1\n', '1.0', 1.0, 1.5, True, None]),
)
TEXT = st.one_of(NAMES, st.just(ID), st.none())
NETWORK = st.fixed_dictionaries(
    {},
    optional={
        'uuid': TEXT,
        'port': TEXT,
        'fixed_ip': st.sampled_from(
            ['203.0.113.20', '2001:db8::1', 'fe80::1%eth0', '1.2.3', '1.2.3.4/24', ' 1.2.3.4', '']
        ),
        'tag': NAMES,
    },
)
DISK = st.fixed_dictionaries(
    {},
    optional={
        'source_type': st.sampled_from(['volume', 'image', 'snapshot', 'blank', 'disk', None]),
        'destination_type': st.sampled_from(['local', 'volume', 'x']),
        'uuid': TEXT,
        'boot_index': NUMBERS,
        'volume_size': NUMBERS,
        **dict.fromkeys(('volume_type', 'device_name', 'disk_bus', 'device_type'), TEXT),
        **dict.fromkeys(('guest_format', 'no_device', 'tag'), TEXT),
        'delete_on_termination': st.sampled_from([True, 'False', '1', 'on', 1, 0, None]),
    },
)
NEAR = st.one_of(TEXT, st.lists(TEXT, max_size=2))
SERVER = {
    'name': NAMES,
    'flavorRef': NAMES,
    'imageRef': TEXT,
    'count': st.one_of(st.integers(0, 101), st.sampled_from([2.0, '2', None])),
    'networks': st.one_of(st.lists(NETWORK, max_size=2), st.sampled_from(['auto', 'none', 'x'])),
    'key_name': NAMES,
    'security_groups': st.lists(st.fixed_dictionaries({}, optional={'name': NAMES}), max_size=2),
    'user_data': st.one_of(NAMES, st.binary(max_size=9).map(base64.b64encode).map(bytes.decode)),
    'adminPass': NAMES,
    'metadata': st.dictionaries(NAMES, NAMES, max_size=2),
    'availability_zone': NAMES,
    'config_drive': st.sampled_from([True, False, 'true', None]),
    'block_device_mapping_v2': st.lists(DISK, max_size=2),
    'description': NAMES,
    'scheduler_hints': st.fixed_dictionaries(
        {}, optional={'group': NEAR, 'same_host': NEAR, 'different_host': NEAR}
    ),
}
GOOD = {'name': 'web', 'flavorRef': 'small'}


def bodies(wanted):
    """Yield what Nova is sent for the servers of a request that Climate accepts."""
    values = {'resource_type': 'virtual:instance', 'server': wanted}
    server = validation.check(values, OURS)['server']
    claimed = provisioned_plugin.reserve_group(
        'server', server, {}, {}, hidden=server_spec._SECRET_FIELDS
    )
    secrets = {name: server[name] for name in server_spec._SECRET_FIELDS if name in server}
    made = [build.reservation(**each.params) for each in (claimed, *claimed.others)]
    lease = build.lease(*made)
    for each in made:
        sent, hints = server_spec.build_request(lease, each, ())
        yield {'server': {**sent, **secrets}, 'os:scheduler_hints': hints}


def accepted(wanted):
    """Return how many servers of a request Climate accepts; Nova must accept each of them."""
    found = list(bodies(wanted))
    for each in found:
        NOVAS.validate(each)
    return len(found)


def test_judge_is_the_schema_of_the_version_that_is_sent():
    assert NOVA.microversion == '2.90'
    assert accepted(GOOD) == 1


@pytest.mark.parametrize('field', SERVER)
@hypothesis.settings(max_examples=100, deadline=None)
@hypothesis.given(data=st.data())
def test_nova_accepts_what_climate_accepts(field, data):
    wanted = {**GOOD, field: data.draw(SERVER[field])}
    with contextlib.suppress(exceptions.BadRequest):
        accepted(wanted)


@hypothesis.settings(max_examples=300, deadline=None)
@hypothesis.given(disk=DISK, has_image=st.booleans())
def test_nova_reads_the_block_devices_that_climate_accepts(disk, has_image):
    with contextlib.suppress(exceptions.BadRequest):
        values = {'resource_type': 'virtual:instance', 'server': {**GOOD, KEY: [disk]}}
        (checked,) = validation.check(values, OURS)['server'][KEY]
        server_checks.check_device(checked, 'field', has_image, 1)
        block_device.BlockDeviceDict.from_api(dict(checked), has_image)


#: Block devices that Climate accepts one by one, with what Nova compares of several.
DEVICES = st.lists(
    st.builds(
        operator.or_,
        st.sampled_from(
            [
                {'source_type': 'blank', 'destination_type': 'local'},
                {'source_type': 'blank', 'destination_type': 'local', 'volume_size': '2'},
                {'source_type': 'blank', 'destination_type': 'local', 'guest_format': 'swap'},
                {
                    'source_type': 'blank',
                    'destination_type': 'local',
                    'guest_format': 'swap',
                    'volume_size': 300,
                },
                {'source_type': 'blank', 'destination_type': 'volume', 'volume_size': 1},
                {'source_type': 'image', 'destination_type': 'local', 'uuid': ID},
                {'source_type': 'image', 'destination_type': 'volume', 'uuid': ID}
                | {'volume_size': 1, 'device_name': '/dev/vda'},
                {'source_type': 'snapshot', 'destination_type': 'volume', 'uuid': ID},
                {'source_type': 'volume', 'destination_type': 'volume', 'uuid': ID}
                | {'device_name': 'vda'},
                {'no_device': True, 'source_type': 'blank', 'destination_type': 'local'},
            ]
        ),
        st.fixed_dictionaries(
            {},
            optional={
                'boot_index': st.sampled_from([0, '0', 1, '1', 2, -1, '-1', None]),
                'disk_bus': st.sampled_from(['virtio', 'xen', 'pci']),
            },
        ),
    ),
    min_size=1,
    max_size=3,
)
#: The properties of images that have block devices of their own, in Nova and in Glance.
ROOT = [{'source_type': 'snapshot', 'snapshot_id': ID, 'boot_index': 0}]
PROPERTIES = st.sampled_from(
    [{}, {'root_device_name': '/dev/sda'}, {'block_device_mapping': ROOT, 'bdm_v2': True}]
)


def climate_accepts(devices, flavor, image, has_ref):
    shown = {
        'disk': 1,
        'OS-FLV-EXT-DATA:ephemeral': flavor['ephemeral_gb'],
        'swap': flavor['swap'] or '',
    }
    found = {'size': 1, **image}
    wanted = {'block_device_mapping_v2': devices}
    with pytest.MonkeyPatch.context() as patch:
        sources = {
            name: (lambda *_: found, size)
            for name, (_, size) in server_checks._DEVICE_SOURCES.items()
        }
        patch.setattr(server_checks, '_DEVICE_SOURCES', sources)
        try:
            server_checks.check_block_devices(
                None, wanted, shown, found if has_ref else None, 'devices'
            )
        except exceptions.BadRequest:
            return False
    return True


def nova_accepts(devices, flavor, image, has_ref):
    """Have the API of nova check the devices, without the services that it asks."""
    nova = compute.API.__new__(compute.API)
    nova.volume_api = mock.Mock()
    nova.volume_api.get_snapshot.return_value = {'size': 1}
    nova.volume_api.attachment_create.return_value = {'id': ID}
    nova.image_api = mock.Mock()
    nova.image_api.get.return_value = {'id': ID}
    volume = {'id': ID, 'size': 1, 'multiattach': False}
    context, options = nova_context.get_admin_context(), {'image_ref': ID if has_ref else ''}
    root = image.get('root_device_name')
    options['root_device_name'] = block_device.prepend_dev(root)
    instance = objects.Instance(context, uuid=ID, image_ref=options['image_ref'])
    try:
        read = [block_device.BlockDeviceDict.from_api(dict(each), has_ref) for each in devices]
        boots = {each['source_type'] for each in read if each.get('boot_index') == 0}
        meta = {'properties': image if has_ref or boots == {'image'} else {}}
        found = nova._check_and_transform_bdm(
            context, options, flavor, meta, 1, 1, read, legacy_bdm=False
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compute, 'CONF', mock.Mock(max_local_block_devices=-1))
            nova._validate_bdm(context, instance, flavor, found, {}, {ID: volume})
    except exception.Invalid:
        return False
    return True


@hypothesis.settings(max_examples=600, deadline=None)
@hypothesis.given(
    devices=DEVICES,
    flavor=st.fixed_dictionaries(
        {'ephemeral_gb': st.sampled_from([0, 2, 4]), 'swap': st.sampled_from([0, 300, 512])}
    ),
    image=PROPERTIES,
    has_ref=st.booleans(),
)
def test_climate_accepts_together_what_nova_accepts(devices, flavor, image, has_ref):
    ours, novas = (
        accepts(devices, flavor, image, has_ref) for accepts in (climate_accepts, nova_accepts)
    )
    # Climate does not read the devices that an image has, for which Nova drops the one of imageRef
    # without a look at its bus.
    if 'block_device_mapping' not in image:
        assert ours == novas
    elif all(each.get('disk_bus') != 'pci' for each in devices):
        assert ours or not novas


@pytest.mark.parametrize(
    ('disk', 'field'),
    [
        ({}, 'source_type'),
        ({'source_type': 'volume'}, 'uuid'),
        ({'source_type': 'blank', 'uuid': ID}, 'uuid'),
        ({'source_type': 'image', 'uuid': ID, 'destination_type': 'local'}, 'destination_type'),
        ({'source_type': 'volume', 'uuid': ID, 'volume_type': 'ssd'}, 'volume_type'),
        ({'source_type': 'image', 'uuid': ID, 'destination_type': 'volume'}, 'volume_size'),
        ({'source_type': 'blank', 'disk_bus': 'pci'}, 'disk_bus'),
    ],
)
def test_block_device_that_nova_cannot_read_is_rejected(disk, field):
    with pytest.raises(exceptions.BadRequest) as caught:
        server_checks.check_device(disk, 'disk', True, 1)
    assert caught.value.field == f'disk.{field}'
    assert caught.value.message.startswith(f'disk.{field}: must ')


@pytest.mark.parametrize(
    ('wanted', 'field'),
    [
        ({'name': 'n' * 254, 'count': 2}, 'server.name'),
        ({'name': 'n' * 252, 'count': 100}, 'server.name'),
        ({'name': '   '}, 'server.name'),
        ({'name': 'web '}, 'server.name'),
        ({'name': 'a\x85b'}, 'server.name'),
        ({'name': '\U0001f600'}, 'server.name'),
        ({'metadata': {'k' * 256: 'v'}}, 'server.metadata'),
        ({'metadata': {'k' * 300: 'v'}}, 'server.metadata'),
        ({'metadata': {'a/b': 'v'}}, 'server.metadata'),
        ({'metadata': {'k': '\ud800'}}, 'server.metadata.k'),
        ({'description': 'a\nb'}, 'server.description'),
        ({'description': '\x9b31m'}, 'server.description'),
        ({'user_data': '#!/bin/sh'}, 'server.user_data'),
        ({'security_groups': [{'name': ' web'}]}, 'server.security_groups[0].name'),
        ({'availability_zone': 'zone '}, 'server.availability_zone'),
        ({'networks': [{'uuid': ID, 'tag': 'a,b'}]}, 'server.networks[0].tag'),
        ({'networks': [{'uuid': ID, 'fixed_ip': '1.2.3'}]}, 'server.networks[0].fixed_ip'),
        (
            {'block_device_mapping_v2': [{'volume_size': '4294967296'}]},
            'server.block_device_mapping_v2[0].volume_size',
        ),
    ],
)
def test_what_nova_rejects_is_rejected_naming_the_field(wanted, field):
    with pytest.raises(exceptions.BadRequest) as caught:
        accepted({**GOOD, **wanted})
    assert caught.value.field == field
    assert caught.value.message.startswith(f'{field}: ')


@pytest.mark.parametrize(
    'wanted',
    [
        {'name': 'n' * 253, 'count': 2},
        {'name': 'n' * 251, 'count': 100},
        {'name': 'é\u3000web (1)', 'description': ' two  blanks '},
        {'metadata': {'a-b_c:d. e': '\x9b any\n'}},
        {'user_data': 'IyEvYmlu\nL3No\n'},
        {'networks': [{'uuid': ID, 'fixed_ip': '2001:db8::1', 'tag': 'nic 1'}]},
        {'block_device_mapping_v2': [{'volume_size': '10', 'boot_index': '0', 'uuid': ID}]},
        {'scheduler_hints': {'different_host': [ID, ID], 'same_host': ID}},
    ],
)
def test_what_nova_accepts_is_accepted(wanted):
    assert accepted({**GOOD, **wanted}) == wanted.get('count', 1)


@hypothesis.given(st.text('a -é', max_size=3), st.integers(250, 260))
def test_nova_accepts_the_names_of_images(end, count):
    sent = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(servers, 'act', lambda _conn, _id, name, body: sent.append({name: body}))
        servers.create_image(None, ID, f'{"n" * count}{end}', ID)
    validators._SchemaValidator(schema.create_image).validate(sent[0])
