# SPDX-License-Identifier: Apache-2.0
import pytest

from climate_core import exceptions
from climate_core.plugins import patience


def test_the_waits_grow_up_to_the_longest():
    waits = [each.seconds for each in map(patience.Patience(1.0, 5.0, 2.0).wait, 'aaaaa')]
    assert waits == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_each_reservation_has_its_own():
    patient = patience.Patience(1.0, 5.0, 2.0)
    assert [patient.wait(each).seconds for each in 'abab'] == [1.0, 1.0, 2.0, 2.0]


def test_what_takes_long_is_told():
    patient = patience.Patience()
    reasons = [patient.wait('a', 'It has been creating').reason for _ in range(31)]
    assert reasons == [None] * 30 + ['It has been creating for a long time already.']
    assert patient.wait('a').reason is None
    assert patient.wait('b', 'It has been creating').reason is None


def test_what_was_asked_is_told_once():
    patient = patience.Patience()
    patient.asked('a', 'image')
    assert not patient.was_asked('a', 'wake_up')
    assert patient.was_asked('a', 'image')
    assert not patient.was_asked('a', 'image')


def test_asking_starts_the_waits_anew():
    patient = patience.Patience(1.0, 50.0, 2.0)
    patient.wait('a')
    patient.wait('a')
    assert patient.asked('a', 'image').seconds == 1.0


def test_done_forgets():
    patient = patience.Patience(1.0, 5.0, 2.0)
    patient.asked('a', 'image')
    patient.done('a')
    assert not patient.was_asked('a', 'image')
    assert patient.wait('a').seconds == 1.0


def test_it_is_bounded(monkeypatch):
    monkeypatch.setattr(patience, '_KEPT', 2)
    patient = patience.Patience(1.0, 5.0, 2.0)
    for each in 'abc':
        patient.wait(each)
    assert patient.wait('a').seconds == 1.0
    assert patient.wait('c').seconds == 2.0


def test_after_each_failure_is_a_longer_rest():
    patient = patience.Patience(1.0, 7.0, 2.0)
    rests = []
    for _ in range(4):
        patient.asked('a', 'image')
        with pytest.raises(exceptions.Transient, match='It burnt'):
            patient.again('a', 'image', lambda: 'It burnt.')
        rest = patient.again('a', 'image', lambda: 'It burnt.')
        assert rest.reason == 'It burnt.'
        rests.append(rest.seconds)
        assert patient.again('a', 'image', lambda: 'It burnt.') is None
    assert rests == [2.0, 4.0, 7.0, 7.0]


def test_what_is_asked_for_once():
    patient = patience.Patience(1.0, 7.0, 2.0)
    asked = []
    for _ in range(2):
        patient.once('a', 'image', lambda: 'It burnt.', lambda: asked.append('image'))
        with pytest.raises(exceptions.Transient, match='It burnt'):
            patient.once('a', 'image', lambda: 'It burnt.', lambda: asked.append('too soon'))
        rest = patient.once('a', 'image', lambda: 'It burnt.', lambda: asked.append('too soon'))
        assert rest.seconds > 1.0
    assert asked == ['image', 'image']


@pytest.mark.parametrize(
    ('error', 'failures'), [(exceptions.Permanent, 1), (exceptions.Transient, 0)]
)
def test_a_refusal_is_a_failure(error, failures):
    patient = patience.Patience()

    def refuse():
        raise error('No.')

    with pytest.raises(error):
        patient.once('a', 'image', lambda: 'It burnt.', refuse)
    assert patient.failures('a') == failures
    assert not patient.was_asked('a', 'image')
    assert (patient.rest('a') is not None) is bool(failures)


def test_failures_are_counted():
    patient = patience.Patience()
    for count in range(3):
        assert patient.failures('a') == count
        patient.failed('a')
    assert patient.failures('b') == 0
    patient.done('a')
    assert patient.failures('a') == 0


def test_what_is_due_after_many_looks():
    patient = patience.Patience()
    due = []
    for _ in range(7):
        due.append(patient.is_due('a', 3))
        patient.wait('a')
    assert due == [False, False, False, True, False, False, True]
    patient.asked('a', 'image')
    assert not patient.is_due('a', 3)


def test_something_else_was_asked():
    patient = patience.Patience()
    patient.asked('a', 'image')
    assert patient.again('a', 'delete', lambda: 'It burnt.') is None


def test_what_is_asked_for_before_there_is_an_answer():
    patient = patience.Patience(1.0, 5.0, 2.0)
    patient.wait('a')
    patient.asking('a', 'image')
    assert patient.looks('a') == 1
    assert patient.last('a') == patient.last('a') == 'image'
    assert patient.was_asked('a', 'image')
    assert patient.last('a') is None
