# SPDX-License-Identifier: Apache-2.0
"""One request costs what it asks for: CPU, memory and stored bytes."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from cryptography.fernet import Fernet

from climate_common import limits, sealing
from climate_core import exceptions, notifications
from climate_core.api import reservations, validation
from climate_core.api.schemas import leases as lease_schemas
from climate_core.cloud import errors, services
from climate_core.db import leases, listing
from climate_core.operations import idempotency, quota
from climate_core.plugins import provisioned_plugin, server_checks, stack_templates
from climate_core.plugins.server import ServerPlugin
from climate_core.plugins.volume import VolumePlugin
from tests.conformance.fake_stacks import FakeStacks
from tests.security.cost import bounded
from tests.support.created import get_id
from tests.support.fakes import cloud_server, flavors, hypervisors
from tests.unit.plugins.templated import START, TEMPLATE, Templated, wanted

LEASE = '6b0a3c2e-6c5e-4c2c-9c8b-3f1d6f6b7a11'
END = '2082-12-01 14:00'
#: What a request may cost beside its calls to other services.
CPU_SECONDS, MEBIBYTES = 10, 60
#: Characters of a scalar, and aliases of it: 86 KB that stand for 460 MB.
LONG, ALIASES = 43_000, 10_700
BOMB = f'a: &a {"x" * LONG}\nb: [{"*a, " * ALIASES}*a]\n'


@pytest.fixture
def made(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Templated]:
    """Return a manager of a cloud that answers at once which flavor there is."""
    with cloud_server.running(tmp_path / 'journal') as fake:
        leased = Templated(FakeStacks(fake))
        flavor = flavors.add(leased.stacks.state, id='small')
        # A dry run finds room for what a create leaves to Nova.
        hypervisors.add(leased.stacks.state, vcpus=10**6, memory_mb=10**9, local_gb=10**9)
        monkeypatch.setattr('climate_core.cloud.servers.get_flavor', lambda *_: flavor)
        yield leased
        leased.database.dispose()


def body(*items: Mapping[str, Any], **values: Any) -> dict[str, Any]:
    times = {'start_date': START, 'end_date': END}
    return {'name': 'lease1', **times, 'reservations': items, **values}


def server(**values: Any) -> dict[str, Any]:
    wanted = {
        'name': 'web',
        'flavorRef': 'small',
        'block_device_mapping_v2': [{'source_type': 'blank', 'boot_index': 0}],
        **values,
    }
    return {'resource_type': 'virtual:instance', 'server': wanted}


def create(made: Templated, *items: Mapping[str, Any], **values: Any) -> str:
    return get_id(made.operations.creator.create_lease(made.stacks.user(), body(*items, **values)))


def stored(made: Templated, lease_id: str) -> int:
    """Return the bytes that the reservations of a lease store."""
    return sum(len(json.dumps(each.params)) for each in made.lease(lease_id).reservations)


TEXTS = {
    field: before + BOMB.replace('a:', '  a:', 1).replace('\nb:', '\n  b:')
    for field, before in {
        'environment': 'parameter_defaults:\n',
        'template': 'heat_template_version: 2021-04-16\nparameters:\n',
    }.items()
}


@pytest.mark.parametrize('lease_id', [None, LEASE])
@pytest.mark.parametrize('field', TEXTS)
def test_aliases_of_a_long_text_are_not_expanded(
    made: Templated, field: str, lease_id: str | None
) -> None:
    chosen = {'id': lease_id} if lease_id else {}
    request = body(wanted(**{field: TEXTS[field]}), **chosen)
    with bounded(CPU_SECONDS, MEBIBYTES):
        answer = made.operations.check_lease(made.stacks.user(), request)
        with pytest.raises(exceptions.BadRequest) as caught:
            made.operations.creator.create_lease(made.stacks.user(), request)
    assert caught.value.field == f'reservations[0].{field}'
    assert 'those of each alias counted' in answer['refusals'][0]['error_message']


@pytest.mark.parametrize('is_merged', [False, True])
def test_names_with_one_hash_take_linear_time(made: Templated, is_merged: bool) -> None:
    names = [f'{number * (2**61 - 1)}: 1' for number in range(30_000)]
    text = f'a: {{{", ".join(names)}}}'
    if is_merged:
        parts = [f'm{n}: &m{n} {{{", ".join(names[n * 90 : n * 90 + 90])}}}' for n in range(150)]
        merged = ', '.join(f'*m{n}' for n in range(150))
        text = '\n'.join([*parts, f'a: {{<<: [{merged}]}}'])
    with bounded(CPU_SECONDS, MEBIBYTES), pytest.raises(exceptions.BadRequest, match='digits'):
        made.made(wanted(environment=text))


@pytest.mark.parametrize('text', [f'a=b{" " * 4090}x', f'a{" " * 4090}', f'{" " * 4090}a'])
def test_conditions_are_read_in_linear_time(text: str) -> None:
    with bounded(1.0, MEBIBYTES):
        for _ in range(limits.CALENDAR_RESERVATIONS):
            limits.parse_condition(text)


def test_one_string_that_many_values_share_is_not_encoded() -> None:
    shared = 'x' * 500_000
    with bounded(2, 20), pytest.raises(ValueError, match='at most 1048576 characters'):
        limits.encode([shared] * 90_000)


def test_many_small_values_are_encoded_in_linear_time() -> None:
    with bounded(5, 60):
        assert len(limits.encode([[]] * 260_000)) == 260_000 * 4


def test_files_of_a_stack_are_bounded_with_its_template(made: Templated) -> None:
    quotes = {'files': {'a': '"' * 500_000, 'b': '\\' * 100_000}}
    with bounded(CPU_SECONDS, MEBIBYTES), pytest.raises(exceptions.BadRequest) as caught:
        made.made(wanted(template={**TEMPLATE, 'description': 'x'}, **quotes))
    assert caught.value.field == 'reservations[0].template'


def test_servers_of_a_request_are_compared_with_those_of_a_lease_once(made: Templated) -> None:
    made.operations.services.conf.set_override('reservations_per_lease', 1100, group='limits')
    held = [server(name=f'held{number}') for number in range(100)]
    create(made, *held, id=LEASE)
    asked = [server(name=f'asked{number}') for number in range(1000)]
    with bounded(CPU_SECONDS, MEBIBYTES):
        answer = made.operations.check_lease(made.stacks.user(), body(*asked, id=LEASE))
    assert answer['granted']


def test_a_repeated_request_finds_every_group(made: Templated) -> None:
    """Equal groups are told apart, and each is found once."""
    items = [server(count=5)] * 50 + [server(name=f's{number}') for number in range(200)]
    create(made, *items, id=LEASE)
    before = made.lease(LEASE)
    with bounded(CPU_SECONDS, MEBIBYTES):
        create(made, *items, id=LEASE)
    assert made.lease(LEASE) == before
    create(made, *items, server(count=5), id=LEASE)
    assert len(made.lease(LEASE).reservations) == len(before.reservations) + 5


@pytest.mark.parametrize('part', ['a.', 'a', 'eyJ.', 'HTTPConnection(', 'http:/'])
def test_error_of_a_service_that_repeats_a_request_is_read_in_linear_time(part: str) -> None:
    long = part * (limits.DOCUMENT_LENGTH // len(part))
    with bounded(0.2, 20):
        assert len(errors.redact(f'The value {long} is not a number: see http://inside/')) <= 2000


def test_history_of_a_change_is_as_long_as_the_change(made: Templated) -> None:
    metadata = {f'key{number}': 'x' * 255 for number in range(128)}
    create(made, *(server(name=f's{n}', metadata=metadata) for n in range(20)), id=LEASE)
    held = made.lease(LEASE).reservations
    for on_end in ('stop', 'delete'):
        changes = [{'id': each.id, 'on_end': on_end} for each in held]
        made.operations.update_lease(made.stacks.user(), LEASE, {'reservations': changes})
    entries = [each for _, each in made.database.read(listing.read_history_page, LEASE)[0]]
    assert len(json.dumps(entries[0].changes)) > 500_000
    assert [len(json.dumps(each.changes)) < 3000 for each in entries[1:]] == [True, True]
    params = entries[1].changes['reservations'][held[0].id]['params']
    assert params == [{'on_end': 'delete'}, {'on_end': 'stop'}]


def test_notifications_have_no_metadata_and_no_lists_of_a_specification(made: Templated) -> None:
    metadata = {f'key{number}': 'x' * 255 for number in range(128)}
    create(made, server(metadata=metadata), id=LEASE)
    (shown,) = notifications.lease_payload(made.lease(LEASE))['reservations']
    assert shown['server'] == {'name': 'web', 'flavorRef': 'small'}


SECRETS = {'adminPass': 'guess', 'user_data': 'Z3Vlc3M='}


def test_digests_at_rest_need_a_key_to_be_guessed(made: Templated) -> None:
    """A reader of the database knows all but the key; keys are rotated and added."""
    first, second, third = (Fernet.generate_key().decode() for _ in range(3))
    conf, user = made.conf, made.stacks.user()
    conf.register_opts(ServerPlugin.options, group=ServerPlugin.resource_type)
    for each in (conf, made.stacks.conf):
        each.set_override('secret_keys', [first], group=ServerPlugin.resource_type)
    request = body(server(**SECRETS), wanted(), idempotency_key='key')
    lease_id = get_id(made.operations.creator.create_lease(user, request))
    held = made.lease(lease_id)
    at_rest = {each.params[provisioned_plugin.DIGEST_KEY] for each in held.reservations}
    at_rest.add(str(held.request_digest))
    said = dict(server(**SECRETS)['server'])
    for keys in ([], [second]):
        guessed = {
            *sealing.digests(limits.encode(said), lease_id, keys),
            *idempotency.request_digests(request, lease_id, keys),
        }
        assert at_rest.isdisjoint(guessed)
    for keys in ([second, first], [third, second, first]):
        for each in (conf, made.stacks.conf):
            each.set_override('secret_keys', keys, group=ServerPlugin.resource_type)
        assert get_id(made.operations.creator.create_lease(user, request)) == lease_id
        # The same, found by the digest of the reservation alone.
        made.operations.creator.add_reservation(user, lease_id, server(**SECRETS))
        assert made.lease(lease_id) == held
    other = server(**{**SECRETS, 'adminPass': 'other'})
    made.operations.creator.add_reservation(user, lease_id, other)
    assert len(made.lease(lease_id).reservations) == len(held.reservations) + 1


METADATA = {f'{number:<255}': 'v' * 255 for number in range(128)}
DISK = {
    'source_type': 'image',
    'destination_type': 'volume',
    'uuid': '0' * 255,
    'boot_index': 0,
    'volume_size': 2**31 - 1,
    'volume_type': 'v' * 255,
    'delete_on_termination': True,
    'device_name': 'd' * 255,
    'disk_bus': 'b' * 255,
    'device_type': 't' * 255,
    'guest_format': 'g' * 255,
    'no_device': False,
    'tag': 't' * 60,
}


def test_a_large_specification_is_stored_once(
    made: Templated, monkeypatch: pytest.MonkeyPatch
) -> None:
    # There is no such image, nor such a volume type.
    monkeypatch.setattr(server_checks, 'check_block_devices', lambda *_: None)
    large = server(metadata=METADATA, block_device_mapping_v2=[DISK] * 64, count=100)
    check(large)
    with bounded(CPU_SECONDS, MEBIBYTES):
        lease_id = create(made, large)
    assert len(made.lease(lease_id).reservations) == 100
    assert stored(made, lease_id) < len(json.dumps(large)) + 100 * 1000


def test_a_large_specification_of_volumes_is_stored_once(made: Templated) -> None:
    metadata = dict(list(METADATA.items())[:127])
    large = {'name': 'data', 'size': 1, 'metadata': metadata, 'count': 100}
    item = {'resource_type': 'virtual:volume', 'volume': large}
    lease_id = create(made, item)
    assert stored(made, lease_id) < len(json.dumps(item)) + 100 * 1000


@pytest.mark.parametrize('dry_run', [False, True])
def test_short_values_of_many_servers_are_bounded(
    made: Templated, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    """A character in JSON takes up to twelve bytes."""
    monkeypatch.setattr(services.Service, 'check_zone', lambda *_, **_more: None)
    long = '\N{GRINNING FACE}' * 255
    items = [server(description=long, availability_zone=long, count=100)] * 10
    with bounded(CPU_SECONDS, MEBIBYTES):
        refused = rejected(made, items, dry_run)
    assert (refused['field'], refused['error_code']) == ('reservations', 400)
    assert f'at most {limits.LEASE_BYTES} bytes' in refused['error_message']


@pytest.mark.parametrize('dry_run', [False, True])
def test_servers_of_one_request_are_counted_with_their_count(
    made: Templated, dry_run: bool
) -> None:
    items = [server(name=f's{number}', count=100) for number in range(1000)]
    with bounded(CPU_SECONDS, MEBIBYTES):
        refused = rejected(made, items, dry_run)
    assert f'a lease must have at most {limits.RESERVATIONS}' in refused['error_message']


def test_bytes_of_a_lease_count_what_it_has(made: Templated, monkeypatch: Any) -> None:
    large = {'metadata': METADATA}
    lease_id = create(made, server(**large))
    monkeypatch.setattr(quota, 'LEASE_BYTES', stored(made, lease_id) + 1000)
    made.operations.creator.add_reservation(made.stacks.user(), lease_id, server(name='db'))
    again = server(name='other', **large)
    with pytest.raises(exceptions.BadRequest, match='bytes in one lease'):
        made.operations.creator.add_reservation(made.stacks.user(), lease_id, again)
    assert len(made.lease(lease_id).reservations) == 2


def test_a_change_does_not_let_a_lease_store_more(made: Templated, monkeypatch: Any) -> None:
    user, lease_id = made.stacks.user(), create(made, server() | {'on_end': 'stop'})
    (held,) = made.lease(lease_id).reservations
    monkeypatch.setattr(quota, 'LEASE_BYTES', stored(made, lease_id) - 1)
    with pytest.raises(exceptions.BadRequest, match='bytes in one lease'):
        made.operations.update_reservation(user, lease_id, held.id, {'on_end': 'delete'})
    item = {'id': held.id, 'on_end': 'delete'}
    with pytest.raises(exceptions.BadRequest, match='bytes in one lease'):
        made.operations.update_lease(user, lease_id, {'reservations': [item]})
    # A lease that has more, since the limit was lower, can be changed otherwise.
    made.operations.update_lease(user, lease_id, {'name': 'other'})
    assert made.lease(lease_id).name == 'other'


def rejected(made: Templated, items: list[Any], dry_run: bool) -> Mapping[str, Any]:
    """Return the error of a request, which leaves nothing behind."""
    user = made.stacks.user()
    if dry_run:
        refusals = made.operations.check_lease(user, body(*items))['refusals']
        # The zones of the servers do not exist, so that they have no room (409) either.
        (found,) = [each for each in refusals if each['error_code'] == 400]
        return dict(found)
    with pytest.raises(exceptions.BadRequest) as caught:
        made.operations.creator.create_lease(user, body(*items, id=LEASE))
    assert made.database.read(leases.find, LEASE) is None
    return dict(caught.value.body)


def check(item: Mapping[str, Any]) -> None:
    """Check a reservation with the schema of its plugin, as the API does."""
    plugin = {each.resource_type: each for each in (ServerPlugin, VolumePlugin)}
    of_type = plugin[item['resource_type']]
    validation.check(item, reservations.of_plugin(of_type))


@pytest.mark.parametrize(
    'disk',
    [
        {'other': 'x'},
        {'connection_info': 'x'},
        {'uuid': 'x' * 256},
        {'uuid': {'a': 'b'}},
        {'volume_size': 0},
        {'volume_size': '9' * 100},
        {'boot_index': '1' * 1000},
        {'boot_index': 2**31},
        {'volume_type': 'x' * 256},
        {'device_name': 'x' * 256},
        {'disk_bus': 'x' * 256},
        {'device_type': 'x' * 256},
        {'guest_format': 'x' * 256},
        {'no_device': ['x']},
        {'no_device': 'x' * 256},
        {'tag': 'x' * 61},
        {'delete_on_termination': 'x'},
    ],
    ids=lambda disk: '-'.join(disk),
)
def test_block_devices_have_what_nova_documents(disk: Mapping[str, Any]) -> None:
    with pytest.raises(exceptions.BadRequest, match='block_device_mapping_v2'):
        check(server(block_device_mapping_v2=[disk]))


@pytest.mark.parametrize(
    'disk',
    [
        {},
        DISK,
        {'uuid': LEASE, 'source_type': 'volume', 'boot_index': '-1', 'volume_size': '10'},
        {'boot_index': None, 'volume_type': None, 'no_device': True},
        {'delete_on_termination': 'True', 'device_name': '/dev/vdb'},
    ],
)
def test_block_devices_that_nova_accepts(disk: Mapping[str, Any]) -> None:
    check(server(block_device_mapping_v2=[disk]))


@pytest.mark.parametrize('key', ['', 'k' * 256])
def test_names_of_metadata_are_bounded(key: str) -> None:
    volume = {'name': 'data', 'size': 1, 'metadata': {key: 'x'}}
    for item in (
        server(metadata={key: 'x'}),
        {'resource_type': 'virtual:volume', 'volume': volume},
    ):
        with pytest.raises(exceptions.BadRequest, match='metadata'):
            check(item)


GOOD = {'name': 'lease1', 'end_date': END}


@pytest.mark.parametrize(
    ('values', 'field'),
    [
        ({'reservations': [{}] * 400_000}, 'reservations'),
        ({'reservations': [1] * 400_000}, 'reservations'),
        ({'events': [{'event_type': 'a'}] * 60_000}, 'events'),
        ({'before_start': list(range(300_000))}, 'before_start'),
    ],
    ids=['objects', 'numbers', 'events', 'seconds'],
)
def test_what_is_too_large_is_rejected_before_its_parts_are_checked(
    values: Mapping[str, Any], field: str
) -> None:
    """Each of these takes 1.5 MB in a request, and its parts took up to six seconds."""
    with bounded(0.7, MEBIBYTES), pytest.raises(exceptions.BadRequest) as caught:
        validation.check({**GOOD, **values}, lease_schemas.CREATE)
    assert caught.value.field == field


def test_many_wrong_values_of_an_object_without_a_limit_stop_at_the_first() -> None:
    schema = {'type': 'object', 'additionalProperties': {'type': 'string'}}
    files = {f'file{number}': number for number in range(100_000)}
    with bounded(0.3, MEBIBYTES), pytest.raises(exceptions.BadRequest) as caught:
        validation.check(files, schema, 'files')
    assert str(caught.value.field).startswith('files.file')


LONG_NAME = 'x' * 1_400_000


@pytest.mark.parametrize(
    ('value', 'schema'),
    [
        ({LONG_NAME: 1}, lease_schemas.CREATE),
        ({LONG_NAME: 1}, {'type': 'object', 'additionalProperties': {'type': 'string'}}),
        (LONG_NAME, {'type': 'string', 'not': {'pattern': 'x'}}),
    ],
)
def test_errors_repeat_the_beginning_of_what_is_wrong(value: Any, schema: Any) -> None:
    with pytest.raises(exceptions.BadRequest) as caught:
        validation.check(value, schema)
    assert len(caught.value.message) < 1000
    assert len(caught.value.field or '') <= 80


def test_no_error_is_as_long_as_the_request() -> None:
    error = exceptions.BadRequest(f'{LONG_NAME}: is wrong.', field=LONG_NAME)
    assert len(json.dumps(error.body)) < 5000
    again = exceptions.BadRequest(error.message, **error.kwargs)
    assert again.body == error.body


@pytest.mark.parametrize('text', ['a: !{} b', 'a: &{0} [*{0}]'], ids=['tag', 'anchor'])
def test_errors_of_yaml_repeat_the_beginning_of_a_name(text: str) -> None:
    with pytest.raises(exceptions.BadRequest) as caught:
        stack_templates.parse_template(text.format('x' * 500_000), 'template')
    assert len(caught.value.message) < 600
