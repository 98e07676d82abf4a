# SPDX-License-Identifier: Apache-2.0
import re

import pytest

from climate_common import limits


@pytest.mark.parametrize('name', ['x', 'x' * 255, ' a name\u00a0with spaces '])
def test_name_is_returned(name: str) -> None:
    assert limits.check_name(name) == name


@pytest.mark.parametrize(
    'name', [None, 7, '', ' ', 'x' * 256, 'a\nb', 'a\n', 'a\x00b', 'a\x1bb', 'a\ud800b']
)
def test_name_is_refused(name: object) -> None:
    with pytest.raises(ValueError, match='must be a text of 1 to 255 characters'):
        limits.check_name(name)


@pytest.mark.parametrize(
    'event_type',
    ['x', 'a' * 66, 'com.example.half-way_2', 'before_end_lease', 'error', 'x.errors'],
)
def test_event_type_is_returned(event_type: str) -> None:
    assert limits.check_event_type(event_type) == event_type


@pytest.mark.parametrize(
    'event_type',
    [None, '', 'a' * 67, 'Upper', '.dot', 'x\n', 'x.error', 'x.stop', *limits.OWN_EVENT_TYPES],
)
def test_event_type_is_refused(event_type: object) -> None:
    with pytest.raises(ValueError, match='must be lower-case letters'):
        limits.check_event_type(event_type)


@pytest.mark.parametrize('notices', [[], [600, 60], (1,), [31622400], [60] * 20])
def test_start_notices_are_returned(notices) -> None:
    assert limits.check_start_notices(notices) == [*notices]


@pytest.mark.parametrize(
    'notices', [None, 60, '60', [0], [True], ['60'], [1.5], [31622401], [60] * 21]
)
def test_start_notices_are_refused(notices) -> None:
    with pytest.raises(
        ValueError, match=r'up to 20 integers, each from 1 to 31622400 \(seconds\)'
    ):
        limits.check_start_notices(notices)


def test_json_pattern_matches_the_whole_text() -> None:
    pattern = limits.json_pattern(limits.SECRET_PATTERN)
    assert re.search(pattern, 'sixteen letters!')
    assert not re.search(pattern, 'sixteen letters!\n')
    assert not re.search(pattern, 'x' * 256)
