# SPDX-License-Identifier: Apache-2.0

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from climate_core import exceptions
from climate_core.api import registered_units, reservations, validation
from climate_core.api.schemas import calendar, leases
from climate_core.lease.request import ErrorCollector
from climate_core.plugins.server import ServerPlugin
from climate_core.plugins.stack import StackPlugin
from climate_core.plugins.volume import VolumePlugin
from climate_hosts.api import schemas as host_schemas
from climate_hosts.plugins.capacity import CapacityPlugin, SizesPlugin
from climate_hosts.plugins.host import HostPlugin
from climate_networks.plugins.floatingips import FloatingIpPlugin
from climate_networks.plugins.networks import NetworkPlugin

GOOD = {'name': 'n', 'end_date': '2099-01-01 10:00'}
SERVER = '11111111-1111-4111-8111-111111111111'
NEW = {'name': 'web', 'flavorRef': '1'}
#: Scheduler hints, and what is wrong with them.
HINTS = (
    (SERVER, None),
    ([SERVER, SERVER], None),
    ('x', 'server.scheduler_hints.different_host'),
    ([SERVER, 'x'], 'server.scheduler_hints.different_host[1]'),
)


@pytest.mark.parametrize(
    'values',
    [
        {},
        {'start_date': 'now'},
        {'before_end_date': None},
        {'before_end_notification': '2099-01-01 09:00'},
        {'id': SERVER},
        {'reservations': [], 'events': []},
        {'reservations': [{'resource_type': 'x', 'anything': 1}]},
        {'events': [{'event_type': 'mail', 'time': 'now'}]},
        {'events': [{'event_type': 'before_end_lease', 'event_date': 'now'}]},
        {'name': 'ä' * 255},
        {'start_policy': 'manual', 'before_start': [60, 1], 'webhook': None},
        {'webhook': {'url': 'https://example.org', 'secret': 'x' * 16, 'events': ['lease.*']}},
    ],
)
def test_lease_that_fits_the_schema_is_accepted(values: dict[str, Any]) -> None:
    validation.check({**GOOD, **values}, leases.CREATE)


@pytest.mark.parametrize(
    ('values', 'field', 'said'),
    [
        ({'name': 5}, 'name', 'name: must be a string.'),
        ({'name': ' \t'}, 'name', 'name: must be a text of 1 to 255 characters, not only blanks, '
         'and without control characters.'),
        ({'name': 'a\0'}, 'name', 'without control characters.'),
        ({'name': 'a\n'}, 'name', 'without control characters.'),
        *(({'name': f'a{each}'}, 'name', 'without control characters.')
          for each in ('\ud800', '\x1b', '\x7f', '\x85', '\x9b')),
        ({'name': 'x' * 256}, 'name', 'must not be longer than 255 characters.'),
        ({'start_date': None}, 'start_date', 'must be a string.'),
        ({'id': SERVER.replace('-', '')}, 'id', 'must be a UUID with dashes.'),
        ({'id': 'nope'}, 'id', 'must be a UUID with dashes.'),
        ({'status': 'ACTIVE'}, 'status', 'is not known here. Known are before_end_date, '),
        ({'events': {}}, 'events', 'must be a list.'),
        ({'events': [{'event_type': 'X', 'time': 'now'}]}, 'events[0].event_type', 'not valid'),
        ({'events': [{'time': 'now'}]}, 'events[0].event_type', 'is missing.'),
        ({'events': [{'event_type': 'start_lease', 'time': 'now'}]}, 'events[0].event_type',
         "'start_lease' is used by the service itself."),
        ({'events': [{'event_type': 'release_trust', 'time': 'now'}]}, 'events[0].event_type',
         'service itself'),
        ({'duration': 60}, 'duration', 'exactly one of end_date, duration is needed.'),
        ({'start_policy': 'x'}, 'start_policy', 'must be one of auto, manual.'),
        ({'before_start': [1.5]}, 'before_start[0]', 'must be an integer.'),
        ({'before_start': [1] * 21}, 'before_start', 'must not have more than 20 entries.'),
        ({'webhook': 'x'}, 'webhook', 'must be an object'),
        ({'webhook': {'url': 'x'}}, 'webhook.secret', 'is missing.'),
        ({'webhook': {'url': 'x', 'secret': 'short'}}, 'webhook.secret', 'not valid'),
        ({'webhook': {'url': 'x', 'secret': 'x' * 16, 'events': []}}, 'webhook.events', 'empty'),
        ({'webhook': {'url': 'x', 'secret': 'x' * 16, 'events': ['É']}}, 'webhook.events[0]',
         'must be a type of notifications, or a pattern as "lease.event.*".'),
        ({'webhook': {'url': 'x', 'secret': 'x' * 16, 'tls': 0}}, 'webhook.tls', 'not known'),
        ({'reservations': ['x']}, 'reservations[0]', 'must be an object.'),
        ({'reservations': [{}] * 1001}, 'reservations', 'must not have more than 1000 entries.'),
    ],
)  # fmt: skip
def test_lease_that_breaks_the_schema_is_refused_and_names_the_field(
    values: dict[str, Any], field: str, said: str
) -> None:
    with pytest.raises(exceptions.BadRequest) as caught:
        validation.check({**GOOD, **values}, leases.CREATE)
    assert caught.value.field == field
    assert said in caught.value.message
    assert caught.value.message.startswith(field)


@pytest.mark.parametrize(
    ('plugin', 'values', 'field'),
    [
        (ServerPlugin, {'resource_id': SERVER, 'on_end': 'shelve'}, None),
        (ServerPlugin, {'resource_id': 'vm1'}, 'resource_id'),
        (ServerPlugin, {'resource_id': SERVER, 'on_end': 'explode'}, 'on_end'),
        (ServerPlugin, {'resource_id': SERVER, 'vcpus': 2}, 'vcpus'),
        *((ServerPlugin, {'server': {**NEW, 'scheduler_hints': {'different_host': near}}}, wrong)
          for near, wrong in HINTS),
        (HostPlugin, {'share_with': ['p1', 'p1']}, 'share_with'),
        (HostPlugin, {'share_with': [f'p{number}' for number in range(101)]}, 'share_with'),
        (HostPlugin, {'share_with': ['p1', 'my project']}, 'share_with[1]'),
        *((HostPlugin, {'share_with': [each]}, 'share_with[0]') for each in ('0' * 65, '', 'p\n')),
    ],
)  # fmt: skip
def test_wrong_value_of_a_reservation_is_refused(
    plugin: Any, values: dict[str, Any], field: str | None
) -> None:
    values = {'resource_type': plugin.resource_type, **values}
    errors = ErrorCollector()
    with errors.collected():
        validation.check(values, reservations.of_plugin(plugin), 'reservations[2]')
    assert [each.field for each in errors.found] == [f'reservations[2].{field}'] * bool(field)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*leases.CREATE['properties'], 'event_type', 'time', 'x']),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_anything_is_good_or_named(value: Any) -> None:
    for schema in (leases.CREATE, leases.UPDATE, reservations.CREATE):
        try:
            validation.check(value, schema)
        except exceptions.BadRequest as error:
            assert error.message  # noqa: PT017


def test_a_pattern_is_told_in_words() -> None:
    schema = {'properties': {'x': {'pattern': '^a$', 'description': 'An a.'}}}
    with pytest.raises(exceptions.BadRequest, match=r'^x: is not valid: An a\.$'):
        validation.check({'x': 'b'}, schema)


@pytest.mark.parametrize(
    ('schema', 'value', 'field'),
    [
        (calendar.QUERY['properties'], ['1'], 'x[0]'),
        (leases.LIST_QUERY['name'], 'a\n', 'x'),
        (HostPlugin.schema['share_with'], ['my project'], 'x[0]'),
    ],
)
def test_no_pattern_is_shown_to_users(schema: Any, value: Any, field: str) -> None:
    with pytest.raises(exceptions.BadRequest) as caught:
        validation.check(value, schema, 'x')
    assert caught.value.message.startswith(f'{field}: must be ')
    assert '^' not in caught.value.message


@pytest.mark.parametrize(
    'plugin', [CapacityPlugin, HostPlugin, ServerPlugin, SizesPlugin, StackPlugin, VolumePlugin]
)
def test_wrong_value_of_any_type_of_reservation_names_its_field_once(plugin: Any) -> None:
    whole = {**reservations.of_plugin(plugin), 'required': []}
    for name in plugin.schema:
        errors = ErrorCollector()
        for wrong in ({'a': []}, -1, [[]], '\0', 'x' * 100_000):
            with errors.collected():
                validation.check({name: wrong}, whole, 'reservations[0]')
        assert errors.found
        for each in errors.found:
            field = str(each.field)
            assert field.startswith(f'reservations[0].{name}')
            assert each.message.startswith(f'{field}: ')
            assert not each.message.removeprefix(f'{field}: ').startswith(f'{name}: ')


@pytest.mark.parametrize(
    ('schema', 'value', 'told'),
    [
        ({'enum': ['a', None]}, 'x', r'must be one of a, null\.'),
        ({'type': 'array', 'uniqueItems': True}, [1, 1], r'must not have the same entry twice\.'),
    ],
)
def test_sentence_says_what_would_be_right(schema: Any, value: Any, told: str) -> None:
    with pytest.raises(exceptions.BadRequest, match=f'^x: {told}$'):
        validation.check({'x': value}, {'type': 'object', 'properties': {'x': schema}})


@pytest.mark.parametrize(
    ('schema', 'value', 'expected'),
    [
        (leases.CREATE, {'duration': 3600.0}, {'duration': 3600}),
        (leases.CREATE, {'before_start': [60.0, 1]}, {'before_start': [60, 1]}),
        (leases.UPDATE, {'generation': 3.0}, {'generation': 3}),
        (HostPlugin.schema, {'min': 1.0, 'max': 2.0}, {'min': 1, 'max': 2}),
        (SizesPlugin.schema, {'amount': 2.0, 'vcpus': 1.0}, {'amount': 2, 'vcpus': 1}),
        (FloatingIpPlugin.schema, {'amount': 2.0}, {'amount': 2}),
        (NetworkPlugin.schema, {'segment_id': 100.0}, {'segment_id': 100}),
        (host_schemas.CREATE, {'ratio': 2.0}, {'ratio': 2.0}),
        (StackPlugin.schema, {'parameters': {'version': 1.0}}, {'parameters': {'version': 1.0}}),
    ],
)
def test_integer_with_a_fraction_of_zero_is_an_integer(
    schema: Any, value: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Where any number may stand, it stays as it is."""
    known = schema.get('properties', schema)
    open_ = {'properties': known, 'additionalProperties': registered_units.EXTRA_PROPERTY}
    checked = validation.check(value, open_)
    assert repr(checked) == repr(expected)


@pytest.mark.parametrize('value', [1.5, 1e308, float('inf'), float('nan'), True, '1', None])
def test_nothing_else_is_an_integer(value: Any) -> None:
    schema = {'properties': {'x': {'type': 'integer', 'maximum': 9}}}
    with pytest.raises(exceptions.BadRequest, match=r'^x: must be '):
        validation.check({'x': value}, schema)
