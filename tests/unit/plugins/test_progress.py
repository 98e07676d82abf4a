# SPDX-License-Identifier: Apache-2.0
import datetime
import json

import pytest

from climate_core import exceptions
from climate_core.plugins import step_context
from climate_core.plugins.step_context import END, START, Progress

NOON = datetime.datetime(2082, 12, 1, 12, tzinfo=datetime.UTC)


def later(seconds):
    return NOON + datetime.timedelta(seconds=seconds)


def look(at=NOON, stored=None):
    kept = Progress.load(stored, START, at)
    return step_context.StepContext(None, None, None, None, kept, at)


def test_what_is_kept_goes_through_json():
    kept = Progress(START, NOON).with_state('BUILD', NOON).with_request('wake_up', later(3))
    stored = json.loads(json.dumps(kept.dump()))
    assert Progress.load(stored, START, later(9)) == kept


def test_nothing_is_kept_of_what_is_not_set():
    assert Progress(START, NOON).dump() == {'phase': START, 'since': NOON.isoformat()}


def test_what_a_later_release_adds_is_left_out():
    stored = {**Progress(START, NOON).dump(), 'mood': 'good'}
    assert Progress.load(stored, START, later(9)) == Progress(START, NOON)


@pytest.mark.parametrize('stored', [None, {}, Progress(END, NOON, failures=3).dump()])
def test_each_phase_begins_anew(stored):
    assert Progress.load(stored, START, later(9)) == Progress(START, later(9))


def test_the_age_begins_anew_when_the_state_changes_but_not_when_it_is_first_seen():
    kept = Progress(START, NOON).with_state('BUILD spawning', later(5))
    assert kept.age(later(9)) == 9
    assert kept.with_state('BUILD spawning', later(8)).age(later(9)) == 9
    assert kept.with_state('BUILD networking', later(8)).age(later(9)) == 1


def test_the_waits_grow_up_to_the_longest():
    at, waits = 0.0, []
    while not waits or waits[-1] < 30:
        waits.append(Progress(START, NOON).next_poll(later(at)))
        at += waits[-1]
    assert waits[:3] == [0.5, 0.75, 1.125]
    assert len(waits) == 12
    assert Progress(START, NOON).with_request('image', later(at)).next_poll(later(at)) == 0.5


def test_what_is_put_off_is_quiet_only_later_and_as_old_as_it_is():
    kept = Progress(START, NOON).put_off(later(50))
    assert (kept.quiet(later(60)), kept.age(later(60))) == (10, 60)


def test_after_each_failure_is_a_longer_pause():
    kept, pauses = Progress(START, NOON), []
    for count in range(1, 9):
        kept = kept.with_request('image', NOON).with_failure('It burnt.', NOON)
        assert (kept.failures, kept.reason, kept.asked) == (count, 'It burnt.', None)
        pauses.append(kept.rest(NOON))
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]
    assert kept.rest(later(29)) == 1
    assert kept.rest(later(30)) == 0
    assert kept.with_request('image', NOON).rest(NOON) == 0


def test_a_request_is_told_as_failed_then_paused_then_repeated():
    asked = []

    def once(at, stored):
        return look(at, stored).once(
            'image', 'It burnt.', lambda: asked.append((at - NOON).seconds)
        )

    stored = once(NOON, None).progress
    with pytest.raises(exceptions.Transient, match='It burnt') as caught:
        once(later(5), stored)
    stored = caught.value.progress
    wait = once(later(5), stored)
    assert (wait.seconds, wait.reason, wait.progress) == (1, 'It burnt.', stored)
    once(later(6), wait.progress)
    assert asked == [0, 6]


def test_something_else_that_was_asked_for_has_not_failed():
    stored = look().first_wait('image').progress
    assert look(NOON, stored).again('delete', 'It burnt.') is None


@pytest.mark.parametrize(
    ('error', 'failures'), [(exceptions.Permanent, 1), (exceptions.Transient, None)]
)
def test_a_refusal_is_a_failure(error, failures):
    def refuse():
        raise error('No.')

    with pytest.raises(error) as caught:
        look().once('image', 'It burnt.', refuse)
    assert (caught.value.progress or {}).get('failures') == failures


def test_wait_that_takes_long_has_a_reason():
    stored = look().wait().progress
    assert look(later(599), stored).wait('It has been creating').reason is None
    told = look(later(600), stored).wait('It has been creating').reason
    assert told == 'It has been creating for a long time.'
    assert look(later(600), stored).wait().reason is None


def test_what_is_due_after_a_while_is_not_when_it_was_asked_for_or_put_off():
    stored = look().wait().progress
    assert not look(later(599), stored).is_due(600)
    due = look(later(600), stored)
    assert due.is_due(600)
    for after in (due.first_wait('update'), due.put_off()):
        assert not look(later(601), after.progress).is_due(600)


def test_an_intention_is_written_down_at_once_and_changes_no_age():
    wait = look(later(9), look().wait().progress).intend('update of 1')
    assert wait.seconds == step_context.NO_DELAY
    assert Progress.load(wait.progress, START, NOON) == Progress(START, NOON, 'update of 1')


def test_waits_grow_from_the_first_one():
    asked = Progress(START, NOON)
    assert [asked.next_poll(later(at), 5.0) for at in (0, 4, 90)] == [5.0, 7.0, 30.0]
