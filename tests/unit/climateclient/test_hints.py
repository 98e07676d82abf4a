# SPDX-License-Identifier: Apache-2.0
"""What hints mean, without nova."""

import contextlib
import datetime
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from climate_common import dates
from climate_common import hints as names
from climateclient.extension import hints

NOW = datetime.datetime(2082, 11, 21, 12, 0, tzinfo=datetime.UTC)
ID = '11111111-2222-3333-4444-555555555555'
STACK = '6d1f4a52-0000-4000-8000-000000000007'
HOUR = datetime.timedelta(hours=1)
RULES = hints.HintRules(('delete', 'stop', 'shelve', 'suspend', 'create_image'), length=HOUR)


def parse(given_hints, **kwargs):
    return hints.parse(given_hints, NOW, RULES, new_id=lambda: ID, **kwargs)


def params(**values):
    return {'lease_params': json.dumps(values)}


def test_other_hints_ask_for_no_reservation():
    assert parse(None) is None
    assert parse({}) is None
    assert parse({'group': 'x'}) is None
    assert not hints.mentioned({'group': 'x'})


def test_reserved_alone_gives_a_lease_of_the_usual_length_now():
    wanted = parse({'reserved': True})
    assert wanted.lease_id == ID
    assert not wanted.join
    assert wanted.lease == {
        'name': 'lease_11111111',
        'start_date': '2082-11-21T12:00:00+00:00',
        'end_date': '2082-11-21T13:00:00+00:00',
        'events': [],
    }


@pytest.mark.parametrize(
    ('words', 'reserved'),
    [
        ((True, 1, 'True', 'yes', 'ON', ['1']), True),
        ((False, 0, 'False', 'no', 'off', ['0']), False),
    ],
)
def test_reserved_is_a_boolean(words, reserved):
    for word in words:
        assert hints.wants_reservation({'reserved': word}) is reserved
        assert (parse({'reserved': word}) is not None) is reserved


@pytest.mark.parametrize('word', [None, '', 'maybe', 2, 1.0, {}, [], ['1', '1'], [None]])
def test_reserved_that_is_no_boolean_is_refused(word):
    with pytest.raises(hints.BadHint) as caught:
        parse({'reserved': word})
    assert caught.value.field == 'reserved'


@pytest.mark.parametrize(
    ('start', 'expected'),
    [
        ('2082-11-21 13:5', NOW + datetime.timedelta(minutes=65)),
        ('+1h', NOW + HOUR),
        # Rounded down by a client.
        ('2082-11-21 11:59', NOW),
    ],
)
def test_start_of_the_hint_is_that_of_the_lease(start, expected):
    assert dates.parse(parse(params(start=start)).lease['start_date'], NOW) == expected


def test_past_start_is_accepted_in_a_checked_request():
    past = params(start='2082-11-21 10:00', end='2082-11-21 10:30')
    with pytest.raises(hints.BadHint):
        parse(past)
    assert parse(past, fresh=False).lease['start_date'] == '2082-11-21T10:00:00+00:00'


@pytest.mark.parametrize(
    ('given_hints', 'hours'),
    [
        (params(length='1d 12h'), 36),
        (params(length='PT3H'), 3),
        (params(length=3600), 1),
        ({'lease_params': {'name': 'l', 'length': '2h'}}, 2),
        ({'lease_params': [json.dumps({'length': '2h'})]}, 2),
    ],
)
def test_length_of_the_hint_sets_the_end(given_hints, hours):
    end = dates.isoformat(NOW + datetime.timedelta(hours=hours))
    assert parse(given_hints).lease['end_date'] == end


@pytest.mark.parametrize('on_end', [None, *RULES.on_end])
def test_on_end_is_one_of_the_service(on_end):
    assert parse(params(on_end=on_end)).on_end == on_end


@pytest.mark.parametrize(
    ('given_hints', 'field', 'reason'),
    [
        ({'reserved': 'perhaps'}, 'reserved', 'must be True or False'),
        ({'reserved': None}, 'reserved', 'not null'),
        ({'reserved': ['True', 'False']}, 'reserved', 'must have one value, not 2'),
        ({'reserved': 'False', 'lease_params': '{}'}, 'lease_params', 'left out with reserved='),
        ({'reserved': 'False', 'lease_id': ID}, 'lease_id', 'left out with reserved=False'),
        ({'lease_params': None}, 'lease_params', 'not null'),
        ({'lease_params': '{"name"'}, 'lease_params', 'must be a JSON object: '),
        ({'lease_params': '{"length": NaN}'}, 'lease_params', 'NaN is no number of JSON'),
        ({'lease_params': '[' * 100_000}, 'lease_params', 'must have fewer levels of nesting'),
        ({'lease_params': '[]'}, 'lease_params', 'must be a JSON object'),
        ({'lease_params': [{}, {}]}, 'lease_params', 'must have one value'),
        ({'lease_id': 'mine'}, 'lease_id', "must be a uuid, not 'mine'"),
        ({'lease_id': ID, 'heat_root_stack_id': 'x'}, 'heat_root_stack_id', 'must be a uuid'),
        ({'lease_id': ID, **params(name='l')}, 'lease_params.name', 'left out with lease_id'),
        (params(id='mine'), 'lease_params.id', 'must be a uuid'),
        (params(colour='red'), 'lease_params.colour', 'must be one of before_end, '),
        (params(end_date='now', end='now'), 'lease_params.end', 'left out: end_date is given'),
        (params(name=''), 'lease_params.name', 'must be a text of 1 to 255 characters'),
        (params(start='soon'), 'lease_params.start', 'is not a date: it must be'),
        (params(start='2082-11-20 12:00'), 'lease_params.start', 'must not be in the past'),
        (params(end='2026-02-30 10:00'), 'lease_params.end', 'is not a date'),
        (params(end=5), 'lease_params.end', 'is not a date'),
        (params(end_date='2082-11-21 12:00'), 'lease_params.end_date', 'must be after the start'),
        (params(length='99999999d'), 'lease_params.length', 'is not a duration'),
        (params(length=None), 'lease_params.length', 'is not a duration'),
        (params(end='9999-12-31 23:59'), 'lease_params.end', 'a date from 1000-01-01 to'),
        (params(start='8999-12-31 00:00', length='2d'), 'lease_params.length', 'than 9000-01-01'),
        (params(duration='1h', end='now'), 'lease_params.duration', 'lease_params.end is given'),
        (params(on_end='explode'), 'lease_params.on_end', 'must be one of delete, stop, shelve'),
        (params(kind='retry'), 'lease_params.kind', 'must be immediate'),
        (params(kind='best_effort'), 'lease_params.kind', 'a lease of hosts can be best_effort'),
        (params(kind='soon'), 'lease_params.kind', 'must be one of immediate'),
        (params(start_policy='later'), 'lease_params.start_policy', 'must be one of auto, manual'),
        (params(before_start=[0]), 'lease_params.before_start', 'each from 1 to 31622400'),
        (
            params(before_end_notification='2030-01-01 00:00'),
            'lease_params.before_end_notification',
            'must be from the start',
        ),
        (params(events={}), 'lease_params.events', 'must be a list of up to 100 events'),
        (params(events=[1]), 'lease_params.events[0]', 'must be an object'),
        (params(events=[{}]), 'lease_params.events[0].event_type', 'must be lower-case letters'),
        (params(events=[{'x': 1}]), 'lease_params.events[0].x', 'must be left out'),
        (
            params(events=[{'event_type': 'a', 'event_date': 'soon'}]),
            'lease_params.events[0].event_date',
            'is not a date',
        ),
        (
            params(events=[{'event_type': 'a', 'time': '2082-11-21 10:00'}]),
            'lease_params.events[0].time',
            'must not be in the past',
        ),
        (
            params(events=[{'event_type': 'a', 'time': '+2h'}]),
            'lease_params.events[0].time',
            'must not be after the end of the lease (2082-11-21T13:00:00+00:00)',
        ),
    ],
)
def test_mistake_names_the_key_as_written_and_what_would_be_right(given_hints, field, reason):
    with pytest.raises(hints.BadHint) as caught:
        parse(given_hints)
    assert caught.value.field == field
    assert reason in caught.value.reason


def test_default_length_of_nothing_is_refused():
    """The options of the service may say so."""
    rules = hints.HintRules((), length=datetime.timedelta())
    with pytest.raises(hints.BadHint, match='must be after the start'):
        hints.parse({'reserved': True}, NOW, rules)


@pytest.mark.parametrize('name', ['reserved', 'lease_params', 'lease_id', 'reservation'])
@pytest.mark.parametrize('depth', [600, 50000])
def test_deeply_nested_hint_is_refused(name, depth):
    value = []
    for _ in range(depth):
        value = [value]
    read = hints.reservation_of_hosts if name == 'reservation' else parse
    with pytest.raises(hints.BadHint) as caught:
        read({name: value})
    assert caught.value.field == name


@pytest.mark.parametrize(
    'text', ['[' * 50000, '{"a":' * 50000, '{"on_end": ' + '[' * 500 + ']' * 500 + '}']
)
def test_deeply_nested_json_is_refused(text):
    with pytest.raises(hints.BadHint, match='lease_params'):
        parse({'lease_params': text})


def test_lease_id_joins_that_lease():
    wanted = parse({'lease_id': ID, 'lease_params': {'on_end': 'stop'}})
    assert (wanted.join, wanted.lease, wanted.on_end) == (True, {}, 'stop')


@pytest.mark.parametrize('value', [STACK, [STACK]])
def test_join_of_a_stack_member_has_the_stack(value):
    wanted = parse({'reserved': 'True', 'lease_id': ID, 'heat_root_stack_id': value})
    assert (wanted.join, wanted.stack_id) == (True, STACK)
    assert wanted.as_hints()['heat_root_stack_id'] == STACK


@pytest.mark.parametrize(
    'given_hints',
    [
        {},
        {'reserved': 'False'},
        {'reserved': 'True'},
        {'lease_params': {'on_end': 'stop'}},
    ],
)
def test_stack_without_lease_id_is_left_out(given_hints):
    """Heat may send it with every server of every stack."""
    wanted = parse({**given_hints, 'heat_root_stack_id': 'whatever'})
    assert wanted is None or wanted.stack_id is None
    assert not hints.mentioned({'heat_root_stack_id': STACK})


@pytest.mark.parametrize(
    'given_hints',
    [
        {'reserved': 'True'},
        params(name='l', start='now', length='2h', on_end='shelve', before_end_date='now'),
        {'lease_params': {'events': [{'event_type': 'half', 'event_date': 'now'}]}},
        {'lease_params': {'events': [{'event_type': 'at_the_end', 'time': '+1h'}]}},
        {'lease_id': ID},
        {'lease_id': ID, 'lease_params': {'on_end': 'stop'}},
        {'lease_id': ID, 'heat_root_stack_id': STACK},
        {'lease_id': ID, 'climate_reservation': STACK},
    ],
)
def test_written_hints_are_read_as_the_same(given_hints):
    """Nova keeps hints as lists of strings; the other services read those."""
    wanted = parse(given_hints)
    kept = {name: [value] for name, value in wanted.as_hints().items()}
    assert all(isinstance(value, str) for (value,) in kept.values())
    assert hints.wants_reservation(kept)
    later = NOW + datetime.timedelta(days=100)
    assert hints.parse(kept, later, RULES, fresh=False) == wanted


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
words = st.sampled_from(sorted(names.KEYS)) | st.text(max_size=5)


@given(
    st.dictionaries(
        st.sampled_from(sorted(names.NAMES)),
        json_values | st.dictionaries(words, json_values, max_size=4),
    )
)
def test_any_hints_are_read_or_refused(given_hints):
    with contextlib.suppress(hints.BadHint):
        wanted = parse(given_hints)
        assert wanted is None or json.dumps(wanted.as_hints())


def test_reservation_of_hosts_is_a_uuid_in_its_canonical_form():
    assert hints.reservation_of_hosts({'reserved': 'True'}) is None
    for value in (ID, [ID], ID.upper(), ID.replace('-', '')):
        assert hints.reservation_of_hosts({'reservation': value}) == ID
    for value in ('', 'lease1', None, 7, [], [ID, ID], {'id': ID}):
        with pytest.raises(hints.BadHint, match='reservation: must'):
            hints.reservation_of_hosts({'reservation': value})
