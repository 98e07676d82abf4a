# SPDX-License-Identifier: Apache-2.0
"""Which leases a pass through the queue handles."""

import pytest

from climate_core.db.leases import QueueEntry
from climate_core.operations.wait_queue import QueueTurns


def queue(**counts: int) -> list[QueueEntry]:
    """Return leases of projects, one project after the other."""
    return [
        QueueEntry(f'{project}{number}', project, False)
        for project, count in counts.items()
        for number in range(count)
    ]


def test_all_are_handled_while_they_are_few() -> None:
    turns = QueueTurns(5)
    for _ in range(3):
        ids, is_over = turns.choose(queue(a=3, b=2))
        assert (sorted(ids), is_over) == (['a0', 'a1', 'a2', 'b0', 'b1'], True)
    assert turns.choose([]) == ([], True)


def test_first_leases_are_handled_in_each_pass_and_the_others_in_turn() -> None:
    turns = QueueTurns(4)
    found = [turns.choose(queue(a=8)) for _ in range(4)]
    assert [sorted(ids) for ids, _ in found] == [
        ['a0', 'a1', 'a2', 'a3'],
        ['a0', 'a1', 'a4', 'a5'],
        ['a0', 'a1', 'a6', 'a7'],
        ['a0', 'a1', 'a2', 'a3'],
    ]
    assert [is_over for _, is_over in found] == [False, False, True, False]


def test_projects_take_turns() -> None:
    turns = QueueTurns(4)
    waiting = queue(a=100, b=3, c=1, d=2)
    passes = [sorted(turns.choose(waiting)[0]) for _ in range(6)]
    assert passes[:3] == [['a0', 'a1', 'b0', 'b1'], ['c0', 'd0', 'd1'], ['a0', 'a2', 'b0', 'b2']]
    assert set().union(*passes) > {'b0', 'b1', 'b2', 'c0', 'd0', 'd1'}


def test_forecast_costs_more() -> None:
    waiting = [QueueEntry(f'a{number}', 'a', True) for number in range(100)]
    assert len(QueueTurns().choose(waiting)[0]) == 20
    assert len(QueueTurns().choose(queue(a=200))[0]) == 100


@pytest.mark.parametrize('wanted', ['a70', 'b1'])
def test_wanted_one_is_handled_with_the_first_one_of_its_project(wanted: str) -> None:
    turns = QueueTurns(3)
    turns.choose(queue(c=3))
    ids, _ = turns.choose(queue(a=100, b=2, c=9), wanted)
    assert ids[0] == wanted
    assert f'{wanted[0]}0' in ids


def test_wanted_one_that_waits_no_more_is_nothing() -> None:
    assert QueueTurns().choose(queue(a=2), 'gone') == (['a0', 'a1'], True)


def test_lease_for_which_nothing_was_left_is_handled_next() -> None:
    turns = QueueTurns(4)
    waiting = queue(a=8)
    turns.choose(waiting)
    turns.repeat(['a3'])
    ids, _ = turns.choose(waiting)
    assert sorted(ids) == ['a0', 'a1', 'a3', 'a4']


def test_what_waits_no_more_is_forgotten() -> None:
    turns = QueueTurns(4)
    turns.choose(queue(a=2, b=2))
    turns.choose(queue(b=1))
    assert (list(turns._leases), list(turns._projects)) == (['b0'], ['b'])
