# SPDX-License-Identifier: Apache-2.0
import re

import pytest

from climate_common import event_types, limits


@pytest.mark.parametrize(
    ('check', 'values'),
    [
        (limits.check_name, ['x', 'x' * 255, ' a name\u00a0with spaces ']),
        (limits.check_event_type, ['x', 'a' * 66, 'com.example.half-way_2', 'before_end_lease']),
        (limits.check_event_type, ['error', 'x.errors']),
        (limits.check_start_notices, [[], [600, 60], [31622400], [60] * 20]),
    ],
)
def test_right_value_is_returned(check, values) -> None:
    assert [check(each) for each in values] == values
    assert limits.check_start_notices((1,)) == [1]


WRONG = {
    (limits.check_name, 'must be a text of 1 to 255 characters, not only blanks'): [
        *(None, 7, '', ' ', 'x' * 256, 'a\nb', 'a\n', 'a\x00b', 'a\x1bb', 'a\ud800b'),
    ],
    (limits.check_event_type, 'must be lower-case letters'): [
        *(None, '', 'a' * 67, 'Upper', '.dot', 'x\n', 'x.error', 'x.stop'),
        *event_types.RESERVED_TYPES,
    ],
    (limits.check_start_notices, r'up to 20 integers, each from 1 to 31622400 \(seconds\)'): [
        *(None, 60, '60', [0], [True], ['60'], [1.5], [31622401], [60] * 21),
    ],
}


@pytest.mark.parametrize(
    ('check', 'told', 'value'), [(*key, value) for key in WRONG for value in WRONG[key]]
)
def test_wrong_value_is_refused(check, told, value) -> None:
    with pytest.raises(ValueError, match=told):
        check(value)


def test_json_pattern_matches_the_whole_text() -> None:
    pattern = limits.json_pattern(limits.SECRET_PATTERN)
    assert re.search(pattern, 'sixteen letters!')
    assert not re.search(pattern, 'sixteen letters!\n')
    assert not re.search(pattern, 'x' * 256)


@pytest.mark.parametrize(
    'text', ['NaN', '-Infinity', '[1e999]', '{"a": -1E400}', '[' * 100_000, '']
)
def test_decode_rejects_what_is_not_json(text) -> None:
    with pytest.raises(ValueError, match=r'no number of JSON|nesting|Expecting value'):
        limits.decode(text)


def test_json_is_read_as_it_is_written() -> None:
    value = {'a': [1, -2.5, 1e300, True, None, 'NaN'], 'b': {}}
    assert limits.decode(limits.encode(value)) == value
    with pytest.raises(ValueError, match='not JSON compliant'):
        limits.encode([float('inf')])
