# SPDX-License-Identifier: Apache-2.0
import dataclasses
import datetime
import io

import pytest
from keystoneauth1 import exceptions as ksa
from osc_lib import exceptions as osc

from climateclient import exceptions
from climateclient.models import Lease
from climateclient.osc import wait
from tests.unit.climateclient import samples

FAR = '2999-01-01T00:00:00'


def lease(status, **changes):
    return Lease.from_dict(samples.lease(status=status, **changes))


class Script:
    """What a lease service shows, look after look; the last one stays."""

    def __init__(self, *looks):
        self.looks = list(looks)

    def __call__(self):
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(look, Exception):
            raise look
        return look


def test_wait_for_start_ends_when_the_lease_is_active():
    pauses, seen = [], []
    read = Script(lease('PENDING', start_date=FAR), lease('STARTING'), lease('ACTIVE'))

    result = wait.for_start(read, lambda each: seen.append(each.status), pause=pauses.append)

    assert result.status == 'ACTIVE'
    assert seen == ['PENDING', 'STARTING', 'ACTIVE']
    assert pauses == [wait.LONGEST, wait.SHORTEST]


def test_waits_for_a_service_that_restarts():
    read = Script(
        exceptions.ServiceUnavailable(), ksa.ConnectFailure(), lease('PENDING'), lease('ACTIVE')
    )
    assert wait.for_start(read, lambda _: None, pause=lambda _: None).status == 'ACTIVE'


def test_gives_up_when_the_service_stays_away():
    pauses = []
    with pytest.raises(ksa.ConnectFailure):
        wait.for_start(Script(ksa.ConnectFailure()), lambda _: None, pause=pauses.append)
    assert len(pauses) == wait.MAX_FAILURES - 1


def test_fails_when_the_lease_is_deleted():
    read = Script(lease('PENDING'), exceptions.NotFound())
    with pytest.raises(osc.CommandError, match='deleted while waiting'):
        wait.for_start(read, lambda _: None, pause=lambda _: None)


def test_fails_when_the_lease_waits_for_its_user():
    ready = {'id': 'e', 'event_type': 'ready_to_start', 'time': FAR, 'status': 'DONE'}
    early = lease('PENDING', events=[{**ready, 'status': 'UNDONE'}])
    read = Script(early, lease('PENDING', events=[ready]))
    with pytest.raises(osc.CommandError, match='openstack lease start'):
        wait.for_start(read, lambda _: None, pause=lambda _: None)


def test_fails_after_the_limit():
    pauses = []
    limit = datetime.timedelta(seconds=25)
    with pytest.raises(osc.CommandError, match='not ACTIVE after 25s'):
        wait.for_start(
            Script(lease('PENDING', start_date=FAR)), lambda _: None, limit, pauses.append
        )
    assert pauses == [10, 10, 5]


def test_waits_for_a_deletion():
    seen = []
    read = Script(lease('DELETING'), lease('TERMINATED'), exceptions.NotFound())
    wait.for_deletion(read, lambda each: seen.append(each.status), pause=lambda _: None)
    assert seen == ['DELETING', 'TERMINATED']


def test_deletion_fails_after_the_limit():
    with pytest.raises(osc.CommandError, match='not deleted after 2s'):
        wait.for_deletion(
            Script(lease('DELETING')),
            lambda _: None,
            datetime.timedelta(seconds=2),
            lambda _: None,
        )


def test_progress_in_a_file_has_a_line_for_each_change():
    stream = io.StringIO()
    with wait.progress(stream) as report:
        for status in ('STARTING', 'STARTING', 'ACTIVE'):
            report(lease(status, end_date='2026-10-01T06:00:00.000000'))
    assert stream.getvalue() == 'lease1: STARTING\nlease1: ACTIVE\n'


def test_progress_on_a_terminal_is_live():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    with wait.progress(stream) as report:
        report(lease('STARTING'))
    assert 'lease1: STARTING' in stream.getvalue()


def test_line_counts_down_to_the_start():
    pending = lease('PENDING', status_reason='Waiting for the host.')
    now = pending.start_date - datetime.timedelta(minutes=1, seconds=5)
    expected = 'lease1: PENDING, starts in 1m 5s, Waiting for the host.'
    assert wait.describe(pending, now) == expected
    assert 'starts in' not in wait.describe(pending, pending.start_date)


@pytest.mark.parametrize(
    ('looks', 'seen'),
    [
        (['PENDING', 'STARTING', 'ACTIVE', 'TERMINATED'], ['PENDING', 'STARTING', 'ACTIVE']),
        (['ACTIVE', 'ACTIVE', 'TERMINATING', 'TERMINATED'], 2 * ['ACTIVE'] + 2 * [None]),
        (['STARTING', 'ERROR'], ['STARTING', 'ERROR']),
        (['TERMINATED'], ['TERMINATED']),
    ],
)
def test_watched_lease_is_followed_until_it_is_active_or_over(looks, seen):
    told = []
    last = wait.watch(Script(*map(lease, looks)), lambda one: told.append(one.status), None, int)
    expected = [one or looks[number] for number, one in enumerate(seen)]
    assert told == expected
    assert last.status == expected[-1]


def test_watch_that_is_interrupted_returns_what_was_seen():
    looks = [lease('PENDING', start_date=FAR), KeyboardInterrupt()]

    def look():
        found = looks.pop(0)
        if isinstance(found, KeyboardInterrupt):
            raise found
        return found

    assert wait.watch(look, lambda _: None, pause=lambda _: None).status == 'PENDING'


def test_watch_ends_when_the_lease_is_deleted_or_the_time_is_up():
    read = Script(lease('TERMINATING'), exceptions.NotFound())
    assert wait.watch(read, lambda _: None, pause=lambda _: None).status == 'TERMINATING'
    limit = datetime.timedelta(seconds=3)
    pending = Script(lease('PENDING', start_date=FAR))
    assert wait.watch(pending, lambda _: None, limit, lambda _: None).status == 'PENDING'
    with pytest.raises(osc.CommandError):
        wait.watch(Script(exceptions.NotFound()), lambda _: None, pause=lambda _: None)


def test_line_counts_down_to_the_end():
    one = lease('ACTIVE', end_date='2082-12-01T10:00:00')
    now = datetime.datetime(2082, 12, 1, 8, 30, tzinfo=datetime.UTC)
    assert wait.describe(one, now) == f'{one.name}: ACTIVE, ends in 1h 30m'
    odd = dataclasses.replace(one, name='a\x9b', status_reason='\x7f')
    assert wait.describe(odd, now) == r'a\x9b: ACTIVE, ends in 1h 30m, \x7f'
