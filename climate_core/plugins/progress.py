# SPDX-License-Identifier: Apache-2.0
"""Remember what was asked of the service of a resource, when, and how often it failed.

The engine keeps it with the reservation, in the transaction that settles an event, so retries,
rests and give-ups follow a lease to each manager and survive a restart. Pure.
"""

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

#: The phases of a reservation; what was remembered in one is forgotten in the other.
START: Final = 'start'
END: Final = 'end'

#: An end action is replaced after this number of rejected requests, and this number of seconds
#: from the first one: a mistake in a policy must not delete what the user wanted to keep.
REJECTIONS: Final = 3
REJECTED_SECONDS: Final = 3600.0

#: Seconds from a request to the first look at what came of it, unless an option says it.
FIRST_LOOK: Final = 0.5
#: Seconds of the first pause after a failure, and of the longest wait.
_FIRST: Final = 0.5
_LONGEST: Final = 30.0
_TIMES: Final = ('since', 'asked_at', 'rejected_since', 'failing_since', 'failed_at')


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """The progress of one phase of a reservation; all methods return new values.

    :param phase: :data:`START` or :data:`END`
    :param since: the time of the last change that was seen, of the last request, or of the last
        failure
    :param asked: what was asked for last, and has neither failed nor come about yet
    :param asked_at: when that was, or when a request was last put off
    :param failures: how often what was asked for did not come about
    :param reason: why it failed last, a sentence for the user
    :param state: what was seen of the resource last
    :param rejected: the end action of each request that its service rejected as it was; None for
        no request
    :param rejected_since: when the first of these was rejected
    :param uses: the ids of the resources that this one uses; None if that is not known
    :param failing_since: when it was first seen that it cannot be ended as it is
    :param failed_at: when that was seen last
    """

    phase: str
    since: datetime.datetime
    asked: str | None = None
    asked_at: datetime.datetime | None = None
    failures: int = 0
    reason: str | None = None
    state: str | None = None
    rejected: Sequence[str] | None = None
    rejected_since: datetime.datetime | None = None
    uses: Sequence[str] | None = None
    failing_since: datetime.datetime | None = None
    failed_at: datetime.datetime | None = None

    @classmethod
    def load(
        cls, stored: Mapping[str, Any] | None, phase: str, now: datetime.datetime
    ) -> 'Progress':
        """Read what :meth:`dump` returned; begin anew if that is of another phase."""
        if not stored or stored.get('phase') != phase:
            return cls(phase, now)
        values = {f.name: stored[f.name] for f in dataclasses.fields(cls) if f.name in stored}
        times = {k: datetime.datetime.fromisoformat(values[k]) for k in _TIMES if values.get(k)}
        return cls(**{**values, **times})

    def dump(self) -> dict[str, Any]:
        """Return JSON types, without what is not set."""
        values = {k: v for k, v in dataclasses.asdict(self).items() if v not in (None, 0)}
        return {k: v.isoformat() if k in _TIMES else v for k, v in values.items()}

    def with_state(self, state: str, now: datetime.datetime) -> Self:
        """Note what is seen of the resource; if that has changed, it is so since now."""
        if state == self.state:
            return self
        since = now if self.state is not None else self.since
        return dataclasses.replace(self, state=state, since=since)

    def with_request(self, what: str, now: datetime.datetime) -> Self:
        """Note that something was asked for, and accepted."""
        return dataclasses.replace(self, asked=what, asked_at=now, since=now)

    def with_intention(self, what: str | None) -> Self:
        """Note that something is about to be asked for; None if it was not accepted."""
        return dataclasses.replace(self, asked=what)

    def put_off(self, now: datetime.datetime) -> Self:
        """Note that a request is to be repeated later; what was seen stays as old as it is."""
        return dataclasses.replace(self, asked_at=now)

    def with_failure(self, reason: str, now: datetime.datetime) -> Self:
        """Note that what was asked for did not come about."""
        return dataclasses.replace(
            self,
            asked=None,
            asked_at=None,
            since=now,
            failures=self.failures + 1,
            reason=reason,
        )

    def with_rejection(self, on_end: str, reason: str, now: datetime.datetime) -> Self:
        """Note that a request of an end action was rejected as it was."""
        before = self.rejected if on_end in (self.rejected or ()) else ()
        rejected = [*(before or ()), on_end][-REJECTIONS:]
        since = (self.rejected_since if before else None) or now
        return dataclasses.replace(self, rejected=rejected, rejected_since=since, reason=reason)

    def is_rejected(self, on_end: str, now: datetime.datetime) -> bool:
        """Return whether the requests of this end action have been rejected for long."""
        if list(self.rejected or ()) != [on_end] * REJECTIONS or self.rejected_since is None:
            return False
        return (now - self.rejected_since).total_seconds() >= REJECTED_SECONDS

    def with_failing_end(self, uses: Sequence[str], now: datetime.datetime) -> Self:
        """Note that the end fails, and what the resource uses now."""
        since = self.failing_since or now
        return dataclasses.replace(self, uses=uses, failing_since=since, failed_at=now)

    def with_end_going_on(self, told: str | None, seconds: float, now: datetime.datetime) -> Self:
        """Forget that the end fails, unless what it waits for is the next try of what failed.

        What was accepted and did not come about a second time may fail as slowly again: that is
        remembered until the end.

        :param told: why it waits
        :param seconds: after how long without a failure an end goes on of which something was
            accepted and did not come about once
        """
        failed_at = self.failed_at or self.failing_since
        if failed_at is None or (told is not None and told == self.reason):
            return self
        quiet = (now - failed_at).total_seconds()
        if self.failures > 1 or (self.failures and quiet < seconds):
            return self
        return dataclasses.replace(self, uses=None, failing_since=None, failed_at=None)

    def age(self, now: datetime.datetime) -> float:
        """Return the seconds for which the resource has been as it is."""
        return max(0.0, (now - self.since).total_seconds())

    def quiet(self, now: datetime.datetime) -> float:
        """Return the seconds in which nothing changed and nothing was asked for."""
        last = max(self.since, self.asked_at or self.since)
        return max(0.0, (now - last).total_seconds())

    def next_poll(self, now: datetime.datetime, first: float = FIRST_LOOK) -> float:
        """Return the seconds to wait before the next look; they grow by half with each look.

        :param first: those after a request
        """
        return min(_LONGEST, first + self.quiet(now) / 2)

    def rest(self, now: datetime.datetime) -> float:
        """Return the seconds left of the pause after a failure, which doubles with each one."""
        if self.asked is not None or not self.failures:
            return 0.0
        pause = min(_LONGEST, _FIRST * 2.0 ** min(self.failures, 50))
        return max(0.0, pause - self.age(now))
