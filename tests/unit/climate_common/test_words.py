# SPDX-License-Identifier: Apache-2.0
import pytest

from climate_common import words


@pytest.mark.parametrize(('number', 'said'), [(0, '0 hosts'), (1, '1 host'), (2, '2 hosts')])
def test_number_has_the_right_noun(number: int, said: str) -> None:
    assert words.counted(number, 'host') == said


@pytest.mark.parametrize(
    ('names', 'said'), [(['a'], 'a'), (['a', 'b'], 'a and b'), (['a', 'b', 'c'], 'a, b and c')]
)
def test_names_are_one_phrase(names: list[str], said: str) -> None:
    assert words.listed(names) == said
