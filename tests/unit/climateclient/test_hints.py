# SPDX-License-Identifier: Apache-2.0
"""What hints mean, without nova."""

import contextlib
import datetime
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from climate_common import dates, durations
from climate_common import hints as names
from climateclient.extension import hints

NOW = datetime.datetime(2026, 11, 21, 12, 0, tzinfo=datetime.UTC)
ID = '11111111-2222-3333-4444-555555555555'
STACK = '6d1f4a52-0000-4000-8000-000000000007'
HOUR = datetime.timedelta(hours=1)
RULES = hints.Rules(('delete', 'stop', 'shelve', 'suspend', 'create_image'), length=HOUR)


def parse(given_hints, **kwargs):
    return hints.parse(given_hints, NOW, RULES, new_id=lambda: ID, **kwargs)


def params(**values):
    return {'lease_params': json.dumps(values)}


def test_no_hints_of_ours():
    assert parse(None) is None
    assert parse({}) is None
    assert parse({'group': 'x'}) is None
    assert not hints.mentioned({'group': 'x'})


def test_defaults():
    wanted = parse({'reserved': True})
    assert wanted.lease_id == ID
    assert not wanted.join
    assert wanted.lease == {
        'name': 'lease_11111111',
        'start_date': '2026-11-21T12:00:00+00:00',
        'end_date': '2026-11-21T13:00:00+00:00',
        'events': [],
    }


@pytest.mark.parametrize('word', [True, 1, 'True', 'yes', 'ON', ['1']])
def test_words_for_yes(word):
    assert hints.wants_reservation({'reserved': word})
    assert parse({'reserved': word})


@pytest.mark.parametrize('word', [False, 0, 'False', 'no', 'off', ['0']])
def test_words_for_no(word):
    assert not hints.wants_reservation({'reserved': word})
    assert parse({'reserved': word}) is None


@pytest.mark.parametrize('word', [None, '', 'maybe', 2, 1.0, {}, [], ['1', '1'], [None]])
def test_no_words(word):
    with pytest.raises(hints.BadHint) as caught:
        parse({'reserved': word})
    assert caught.value.field == 'reserved'


@pytest.mark.parametrize(
    ('start', 'expected'),
    [
        ('now', NOW),
        ('2026-11-21 12:00', NOW),
        ('2026-11-21 13:5', NOW + datetime.timedelta(minutes=65)),
        ('2026-11-21T14:00:00+01:00', NOW + HOUR),
        ('2026-11-21T13:00:00Z', NOW + HOUR),
        ('2026-11-21T13:00', NOW + HOUR),
        # Rounded down by a client.
        ('2026-11-21 11:59', NOW),
    ],
)
def test_starts(start, expected):
    assert dates.parse(parse(params(start=start)).lease['start_date'], NOW) == expected


def test_a_request_that_waited_is_not_judged_again():
    past = params(start='2026-11-21 10:00', end='2026-11-21 10:30')
    with pytest.raises(hints.BadHint):
        parse(past)
    assert parse(past, fresh=False).lease['start_date'] == '2026-11-21T10:00:00+00:00'


@pytest.mark.parametrize(
    ('length', 'hours'),
    [('90m', 1.5), ('1d 12h', 36), ('PT3H', 3), (3600, 1), ('3600', 1)],
)
def test_lengths(length, hours):
    lease = parse(params(length=length)).lease
    assert lease['end_date'] == dates.isoformat(NOW + datetime.timedelta(hours=hours))


@pytest.mark.parametrize('length', ['', '0h', 'h', None])
def test_no_lengths(length):
    with pytest.raises(hints.BadHint, match=r'lease_params\.length') as caught:
        parse(params(length=length))
    with pytest.raises(durations.InvalidDuration, match=re.escape(caught.value.reason)):
        durations.parse(length)


def test_a_length_beyond_the_calendar():
    with pytest.raises(hints.BadHint, match=r'lease_params\.length'):
        parse(params(length='99999999d'))


def test_aliases_are_known_by_their_first_name():
    with pytest.raises(hints.BadHint, match=r'lease_params\.end: says end_date a second time'):
        parse({'lease_params': {'end_date': 'now', 'end': 'now'}})


@pytest.mark.parametrize(
    ('values', 'word'),
    [
        ({'end': 'soon'}, 'end'),
        ({'end_date': 'soon'}, 'end_date'),
        ({'start': '2026-11-22 12:00', 'end': 'now'}, 'end'),
        ({'start': 'soon'}, 'start'),
        ({'start': '2026-11-20 12:00'}, 'start'),
        ({'duration': 'long'}, 'duration'),
        ({'duration': '1h', 'end': 'now'}, 'duration'),
        ({'before_end_notification': '2030-01-01 00:00'}, 'before_end_notification'),
        ({'events': [{'event_type': 'a', 'event_date': 'soon'}]}, 'events[0].event_date'),
    ],
)
def test_an_error_names_the_key_as_it_was_written(values, word):
    with pytest.raises(hints.BadHint) as caught:
        parse(params(**values))
    assert caught.value.field == f'lease_params.{word}'


@pytest.mark.parametrize('name', ['reserved', 'lease_params', 'lease_id'])
@pytest.mark.parametrize('depth', [600, 50000])
def test_too_deep(name, depth):
    value = []
    for _ in range(depth):
        value = [value]
    with pytest.raises(hints.BadHint) as caught:
        parse({name: value})
    assert caught.value.field == name


@pytest.mark.parametrize(
    'text', ['[' * 50000, '{"a":' * 50000, '{"on_end": ' + '[' * 500 + ']' * 500 + '}']
)
def test_json_too_deep(text):
    with pytest.raises(hints.BadHint, match='lease_params'):
        parse({'lease_params': text})


def test_join():
    wanted = parse({'lease_id': ID, 'lease_params': {'on_end': 'stop'}})
    assert (wanted.join, wanted.lease, wanted.on_end) == (True, {}, 'stop')


@pytest.mark.parametrize('value', [STACK, [STACK]])
def test_a_member_of_a_stack(value):
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
def test_a_stack_without_a_lease_to_join_is_none_of_ours(given_hints):
    """Heat may send it with every server of every stack."""
    wanted = parse({**given_hints, 'heat_root_stack_id': 'whatever'})
    assert wanted is None or wanted.stack_id is None
    assert not hints.mentioned({'heat_root_stack_id': STACK})


def test_a_stack_that_is_none():
    with pytest.raises(hints.BadHint) as caught:
        parse({'lease_id': ID, 'heat_root_stack_id': 'whatever'})
    assert caught.value.field == 'heat_root_stack_id'


@pytest.mark.parametrize(
    'given_hints',
    [
        {'reserved': 'True'},
        params(name='l', start='now', length='2h', on_end='shelve', before_end_date='now'),
        {'lease_params': {'events': [{'event_type': 'half', 'event_date': 'now'}]}},
        {'lease_id': ID},
        {'lease_id': ID, 'lease_params': {'on_end': 'stop'}},
        {'lease_id': ID, 'heat_root_stack_id': STACK},
    ],
)
def test_what_is_written_reads_the_same(given_hints):
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
def test_anything_is_understood_or_refused(given_hints):
    with contextlib.suppress(hints.BadHint):
        wanted = parse(given_hints)
        assert wanted is None or json.dumps(wanted.as_hints())
