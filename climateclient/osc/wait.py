# SPDX-License-Identifier: Apache-2.0
"""Wait for a lease, with progress on the standard error output."""

import contextlib
import datetime
import time
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from keystoneauth1 import exceptions as ksa
from osc_lib import exceptions

from climate_common import dates
from climate_common.words import escape
from climateclient.exceptions import NotFound, ServiceUnavailable
from climateclient.models import Lease

Report = Callable[[Lease], None]

#: Seconds between two requests: while the lease changes, and at most while it cannot.
SHORTEST, LONGEST = 1.0, 10.0
#: The status of a lease that does not become ACTIVE any more by itself.
_OVER = frozenset({'ERROR', 'TERMINATED', 'TIMEDOUT'})
#: So many requests in a row may fail.
MAX_FAILURES = 10


def for_start(
    read: Callable[[], Lease],
    report: Report,
    limit: datetime.timedelta | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> Lease:
    """Wait until a lease is ACTIVE.

    :param read: returns the lease as it is now
    :param report: called with every lease that was read
    :param limit: how long to wait; for ever if None
    :param pause: sleeps for a number of seconds
    :returns: the lease
    :raises CommandError: it is over, failed or gone, with the reason; it waits for its user; or
        the time is up
    """
    for lease in _polls(read, limit, pause):
        if lease is None:
            raise exceptions.CommandError('The lease was deleted while waiting for it.')
        report(lease)
        if lease.status == 'ACTIVE':
            return lease
        if lease.status in _OVER:
            raise exceptions.CommandError(_outcome(lease))
        if lease.waits_for_user:
            raise exceptions.CommandError(
                f'{_outcome(lease)} Start it: openstack lease start {lease.id}'
            )
    raise exceptions.CommandError(f'The lease was not ACTIVE after {_text(limit)}.')


def watch(
    read: Callable[[], Lease],
    report: Report,
    limit: datetime.timedelta | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> Lease:
    """Follow a lease until it becomes ACTIVE or is over, its user interrupts, or the time is up.

    One that is ACTIVE at first is followed until it is over. None of this is a failure.

    :returns: the lease as it was read last
    :raises CommandError: it was gone at first
    """
    last: Lease | None = None
    goals = {'ACTIVE', *_OVER}
    with contextlib.suppress(KeyboardInterrupt):
        for lease in _polls(read, limit, pause):
            if lease is None:
                break
            if last is None and lease.status == 'ACTIVE':
                goals.discard('ACTIVE')
            last = lease
            report(lease)
            if lease.status in goals:
                break
    if last is None:
        raise exceptions.CommandError('The lease could not be read.')
    return last


def for_deletion(
    read: Callable[[], Lease],
    report: Report,
    limit: datetime.timedelta | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until a lease is gone, as :func:`for_start` waits."""
    _until(lambda _: False, 'deleted', _polls(read, limit, pause), report, limit)


def for_end(
    read: Callable[[], Lease],
    report: Report,
    limit: datetime.timedelta | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until a lease is TERMINATED (or gone), as :func:`for_start` waits."""
    polls = _polls(read, limit, pause)
    _until(lambda lease: lease.status == 'TERMINATED', 'TERMINATED', polls, report, limit)


def _until(
    is_over: Callable[[Lease], bool],
    word: str,
    polls: Iterator[Lease | None],
    report: Report,
    limit: datetime.timedelta | None,
) -> None:
    """Wait until ``is_over`` is true or the lease is gone; ``word`` names this state in errors."""
    for lease in polls:
        if lease is None:
            return
        report(lease)
        if is_over(lease):
            return
        if lease.status == 'ERROR':
            raise exceptions.CommandError(_outcome(lease))
    raise exceptions.CommandError(f'The lease was not {word} after {_text(limit)}.')


@contextlib.contextmanager
def progress(stream: TextIO) -> Iterator[Report]:
    """Show the progress of a wait: one live line on a terminal, one line per change elsewhere."""
    if not stream.isatty():
        yield _changes(stream)
        return
    from rich.console import Console  # costs a tenth of a second: only where it is seen

    line = _Line()
    with Console(file=stream).status(line):
        yield line.see


class _Line:
    """The state of a lease and the time to its start, which rich draws several times a second."""

    def __init__(self) -> None:
        self._lease: Lease | None = None

    def see(self, lease: Lease) -> None:
        self._lease = lease

    def __rich__(self) -> Any:
        from rich.text import Text

        return Text(describe(self._lease, _now()) if self._lease else 'looking')


def describe(lease: Lease, now: datetime.datetime) -> str:
    """Describe a lease in one line: ``lease1: PENDING, starts in 52s``."""
    text = f'{escape(lease.name)}: {lease.status}'
    if lease.status == 'PENDING' and lease.start_date and lease.start_date > now:
        text += f', starts in {dates.display_duration(lease.start_date - now)}'
    if lease.status == 'ACTIVE' and lease.end_date and lease.end_date > now:
        text += f', ends in {dates.display_duration(lease.end_date - now)}'
    if lease.status == 'WAITING' and lease.next_retry_at and lease.next_retry_at > now:
        text += f', tried again in {dates.display_duration(lease.next_retry_at - now)}'
    if lease.status_reason:
        text += f', {escape(lease.status_reason)}'
    return text


def _changes(stream: TextIO) -> Report:
    seen: set[tuple[str | None, str | None]] = set()

    def report(lease: Lease) -> None:
        state = (lease.status, lease.status_reason)
        if state not in seen:
            seen.clear()
            seen.add(state)
            print(describe(lease, _now()), file=stream, flush=True)

    return report


def _polls(
    read: Callable[[], Lease], limit: datetime.timedelta | None, pause: Callable[[float], None]
) -> Iterator[Lease | None]:
    """Yield the lease again and again, None once it is gone, until the time is up."""
    left = limit.total_seconds() if limit else float('inf')
    failures = 0
    while True:
        wait = SHORTEST
        try:
            lease = read()
        except NotFound:
            yield None
            return
        except (ksa.ConnectFailure, ServiceUnavailable):
            failures += 1
            if failures >= MAX_FAILURES:
                raise
        else:
            failures = 0
            yield lease
            wait = _interval(lease)
        if left <= 0:
            return
        wait = min(wait, left)
        pause(wait)
        left -= wait


def _interval(lease: Lease) -> float:
    if lease.status == 'WAITING':
        return LONGEST
    if lease.status == 'PENDING' and lease.start_date:
        return min(max((lease.start_date - _now()).total_seconds(), SHORTEST), LONGEST)
    if lease.status == 'ACTIVE' and lease.end_date:
        return min(max((lease.end_date - _now()).total_seconds(), SHORTEST), LONGEST)
    return SHORTEST


def _outcome(lease: Lease) -> str:
    reason = f': {lease.status_reason}' if lease.status_reason else ''
    return f'Lease {lease.name} ({lease.id}) is {lease.status}{reason}'


def _text(limit: datetime.timedelta | None) -> str:
    return dates.display_duration(limit) if limit else ''


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
