# SPDX-License-Identifier: Apache-2.0
"""Give a step of a plugin its context, at the start and at the end of a lease.

Its :class:`Progress` records what was requested from the service of a resource, when, and how
often it failed. The engine stores it with the reservation, in the transaction that settles an
event, so retries, pauses and timeouts follow a lease to each manager and survive a restart.

An action that a service lost is repaired: the message never arrived, or its process died. It
counts as lost when the state of its resource has not changed for some time. The user gets a reason
after :data:`LONG_WAIT_SECONDS`, and half-way to the time when it counts as lost. Then the repair
is applied with the rights of the service, and again after the same time.
"""

import dataclasses
import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from oslo_log import log

from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.plugins.base import PollAgain

if TYPE_CHECKING:
    from climate_core.cloud import Cloud, connections
    from climate_core.lease.model import Lease, Reservation

LOG = log.getLogger(__name__)

#: The phases of a reservation; the progress of a phase is not used in the other.
START: Final = 'start'
END: Final = 'end'

#: An end action is replaced after this number of rejected requests, and this number of seconds
#: from the first one: an error in a policy must not delete what the user wanted to keep.
MAX_REJECTIONS: Final = 3
REJECTED_SECONDS: Final = 3600.0

#: Seconds from a request to the first poll of its result, unless an option sets it.
FIRST_POLL_SECONDS: Final = 0.5
#: Seconds of the first pause after a failure, and of the longest wait.
_FIRST_PAUSE_SECONDS: Final = 0.5
_MAX_WAIT_SECONDS: Final = 30.0
#: Seconds without a change after which the user gets a reason.
LONG_WAIT_SECONDS: Final = 600.0
#: Seconds until the next poll when only the progress has to be stored first.
NO_DELAY: Final = 0.0
_TIME_FIELDS: Final = ('since', 'asked_at', 'rejected_since', 'failing_since', 'failed_at')


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """The progress of one phase of a reservation; all methods return new values.

    :param phase: :data:`START` or :data:`END`
    :param since: the time of the last observed change, of the last request, or of the last failure
    :param asked: the last request, which has neither failed nor taken effect yet
    :param asked_at: when that was, or when a request was last put off
    :param failures: how often requests had no effect
    :param reason: why it failed last, a sentence for the user
    :param state: the last observed state of the resource
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
        """Load what :meth:`dump` returned; return new progress if that is of another phase."""
        if not stored or stored.get('phase') != phase:
            return cls(phase, now)
        values = {f.name: stored[f.name] for f in dataclasses.fields(cls) if f.name in stored}
        times = {
            k: datetime.datetime.fromisoformat(values[k]) for k in _TIME_FIELDS if values.get(k)
        }
        return cls(**{**values, **times})

    def dump(self) -> dict[str, Any]:
        """Return JSON types, without what is not set."""
        values = {k: v for k, v in dataclasses.asdict(self).items() if v not in (None, 0)}
        return {k: v.isoformat() if k in _TIME_FIELDS else v for k, v in values.items()}

    def with_state(self, state: str, now: datetime.datetime) -> Self:
        """Record the state of the resource; if it has changed, it dates from now."""
        if state == self.state:
            return self
        since = now if self.state is not None else self.since
        return dataclasses.replace(self, state=state, since=since)

    def with_request(self, what: str, now: datetime.datetime) -> Self:
        """Record a request that was accepted."""
        return dataclasses.replace(self, asked=what, asked_at=now, since=now)

    def with_intention(self, what: str | None) -> Self:
        """Record a request that will be sent; None if it was not accepted."""
        return dataclasses.replace(self, asked=what)

    def put_off(self, now: datetime.datetime) -> Self:
        """Record that a request is repeated later; the state keeps its age."""
        return dataclasses.replace(self, asked_at=now)

    def with_failure(self, reason: str, now: datetime.datetime) -> Self:
        """Record that a request had no effect."""
        return dataclasses.replace(
            self,
            asked=None,
            asked_at=None,
            since=now,
            failures=self.failures + 1,
            reason=reason,
        )

    def with_rejection(self, on_end: str, reason: str, now: datetime.datetime) -> Self:
        """Record that the request of an end action was rejected."""
        before = self.rejected if on_end in (self.rejected or ()) else ()
        rejected = [*(before or ()), on_end][-MAX_REJECTIONS:]
        since = (self.rejected_since if before else None) or now
        return dataclasses.replace(self, rejected=rejected, rejected_since=since, reason=reason)

    def is_rejected(self, on_end: str, now: datetime.datetime) -> bool:
        """Return whether the requests of this end action have been rejected for long."""
        if list(self.rejected or ()) != [on_end] * MAX_REJECTIONS or self.rejected_since is None:
            return False
        return (now - self.rejected_since).total_seconds() >= REJECTED_SECONDS

    def with_failing_end(self, uses: Sequence[str], now: datetime.datetime) -> Self:
        """Record that the end fails, and what the resource uses now."""
        since = self.failing_since or now
        return dataclasses.replace(self, uses=uses, failing_since=since, failed_at=now)

    def with_end_continued(
        self, reason: str | None, seconds: float, now: datetime.datetime
    ) -> Self:
        """Remove the record that the end fails, unless it waits for the next try of what failed.

        A request that was accepted without effect twice may fail as slowly again: that stays
        recorded until the end.

        :param reason: why it waits
        :param seconds: seconds without a failure after which an end counts as continued if one
            request was accepted without effect
        """
        failed_at = self.failed_at or self.failing_since
        if failed_at is None or (reason is not None and reason == self.reason):
            return self
        quiet = (now - failed_at).total_seconds()
        if self.failures > 1 or (self.failures and quiet < seconds):
            return self
        return dataclasses.replace(self, uses=None, failing_since=None, failed_at=None)

    def age(self, now: datetime.datetime) -> float:
        """Return the seconds since the state of the resource changed."""
        return max(0.0, (now - self.since).total_seconds())

    def quiet(self, now: datetime.datetime) -> float:
        """Return the seconds since the last change or request."""
        last = max(self.since, self.asked_at or self.since)
        return max(0.0, (now - last).total_seconds())

    def next_poll(self, now: datetime.datetime, first: float = FIRST_POLL_SECONDS) -> float:
        """Return the seconds until the next poll; they grow by half with each poll.

        :param first: seconds after a request
        """
        return min(_MAX_WAIT_SECONDS, first + self.quiet(now) / 2)

    def rest(self, now: datetime.datetime) -> float:
        """Return the seconds left of the pause after a failure, which doubles with each one."""
        if self.asked is not None or not self.failures:
            return 0.0
        pause = min(_MAX_WAIT_SECONDS, _FIRST_PAUSE_SECONDS * 2.0 ** min(self.failures, 50))
        return max(0.0, pause - self.age(now))


@dataclasses.dataclass(frozen=True, slots=True)
class StepContext:
    """One poll of one reservation.

    :param conn: the connection to use: of the owner, or at the end perhaps of the service
    :param progress: the results of earlier polls
    :param options: the section of the resource's type in climate.conf
    :param first_poll: seconds from a request to the first poll of its result
    """

    conn: 'connections.Connection'
    cloud: 'Cloud'
    lease: 'Lease'
    reservation: 'Reservation'
    progress: Progress
    now: datetime.datetime
    options: Any = None
    first_poll: float = FIRST_POLL_SECONDS

    @property
    def service(self) -> 'connections.Connection':
        return self.cloud.service()

    @property
    def as_service(self) -> bool:
        """Return whether the rights of the service replace missing rights of the owner."""
        return self.conn is self.service

    @property
    def resource_id(self) -> str:
        return self.reservation.resource_id

    @property
    def age(self) -> float:
        """Return the seconds since the state of the resource changed."""
        return self.progress.age(self.now)

    def observe(self, *state: object) -> Self:
        """Return the same context with the state of the resource."""
        seen = ' '.join(str(each) for each in state)
        return dataclasses.replace(self, progress=self.progress.with_state(seen, self.now))

    def is_due(self, seconds: float) -> bool:
        """Return whether this number of seconds passed since the last change or request."""
        return self.progress.quiet(self.now) >= seconds

    def note(self, request: str | None) -> Self:
        """Return the same context with another last request."""
        return dataclasses.replace(self, progress=self.progress.with_intention(request))

    def count_failure(self) -> Self:
        """Return the same context with one more failure; the state keeps its age."""
        failures = self.progress.failures + 1
        progress = dataclasses.replace(self.progress, failures=failures)
        return dataclasses.replace(self, progress=progress)

    def wait(self, doing: str | None = None) -> PollAgain:
        """Return the wait until the next poll.

        :param doing: a description for the user, who gets it when the wait is long
        """
        reason = f'{doing} for a long time.' if doing and self.age >= LONG_WAIT_SECONDS else None
        return self._later(self.progress, reason)

    def put_off(self, doing: str | None = None) -> PollAgain:
        """Return a wait after a request that the service cannot accept now."""
        return dataclasses.replace(self, progress=self.progress.put_off(self.now)).wait(doing)

    def rest(self) -> PollAgain | None:
        """Return the rest of the pause after a failure; None if it has ended."""
        seconds = self.progress.rest(self.now)
        return PollAgain(seconds, self.progress.reason, self.progress.dump()) if seconds else None

    def failure(self, reason: str) -> exceptions.Transient:
        """Return the exception for a request without effect."""
        failed = self.progress.with_failure(reason, self.now)
        return exceptions.Transient(reason, failed.dump())

    def again(self, what: str, failed: str) -> PollAgain | None:
        """Return the pause before the next try of a request without effect, if there is any.

        :param failed: the reason of the exception, if it has just failed
        """
        if self.progress.asked == what:
            raise self.failure(failed)
        return self.rest()

    def once(self, what: str, failed: str, request: Callable[[], None]) -> PollAgain:
        """Send a request; after a failure raise it as :meth:`again`, pause, and retry."""
        return self.again(what, failed) or self.send_request(what, request)

    def send_request(self, what: str, request: Callable[[], None]) -> PollAgain:
        """Send a request whatever its earlier results; a rejection is a failure, too."""
        try:
            request()
        except exceptions.Permanent as exc:
            exc.progress = self.progress.with_failure(str(exc), self.now).dump()
            raise
        return self.first_wait(what)

    def first_wait(self, what: str) -> PollAgain:
        """Return the first wait after a request that was accepted."""
        return self._later(self.progress.with_request(what, self.now))

    def intend(self, what: str) -> PollAgain:
        """Return a wait that saves the intention of a request before it is sent.

        A manager that dies after the request leaves that to the next one, which does not repeat
        it.
        """
        return PollAgain(NO_DELAY, None, self.progress.with_intention(what).dump())

    def _later(self, progress: Progress, reason: str | None = None) -> PollAgain:
        seconds = progress.next_poll(self.now, self.first_poll)
        return PollAgain(seconds, reason, progress.dump())


@dataclasses.dataclass(frozen=True, slots=True)
class EndContext(StepContext):
    """One poll at the end of one reservation, with its present end action.

    :param prefix: what the name of an image, a copy or a snapshot begins with
    """

    prefix: str = dataclasses.field(kw_only=True)

    @property
    def on_end(self) -> str:
        return str(self.reservation.params.get('on_end', 'delete'))

    def with_on_end(self, on_end: str) -> Self:
        """Return the same context with another end action."""
        params = {**self.reservation.params, 'on_end': on_end}
        reservation = dataclasses.replace(self.reservation, params=params)
        return dataclasses.replace(self, reservation=reservation)

    @property
    def has_run(self) -> bool:
        """Return whether it was ever recorded as active, also if it no longer is."""
        return self.reservation.status == 'active' or self.reservation.woken_at is not None


#: A step of the end of a resource, as its service shows it; None when the end is complete.
EndStep = Callable[[EndContext, Mapping[str, Any]], PollAgain | None]


def keep_resource(context: EndContext, resource: Mapping[str, Any]) -> None:
    """Leave a resource as it is."""


def require_operator(reason: str) -> EndStep:
    """Return a step that leaves a resource to an operator.

    :param reason: what the operator has to do; ``{status}`` in it is that of the resource
    """

    def step(context: EndContext, resource: Mapping[str, Any]) -> PollAgain:  # noqa: ARG001
        raise exceptions.Transient(reason.format(status=resource['status']))

    return step


@dataclasses.dataclass(frozen=True, slots=True)
class RepairStep:
    """The step that an administrator would take; each service has a subclass that takes it.

    :param name: for the metrics, a few words with underscores
    :param outcome: a sentence for the user about what was done
    :param command: for an operator, if the service may not do it
    :param request_name: the recorded request after it; None leaves that unchanged
    :param is_failure: whether it counts as a failure that the repair is needed
    """

    name: str
    outcome: str
    command: str
    request_name: str | None = dataclasses.field(default=None, kw_only=True)
    is_failure: bool = dataclasses.field(default=False, kw_only=True)

    def run(self, context: StepContext) -> None:
        """Take the step; this one leaves everything to the next poll."""


@dataclasses.dataclass(frozen=True, slots=True)
class _OperatorStep(RepairStep):
    """A step that only an administrator can take.

    :param why: what prevents the service from it
    """

    why: str = dataclasses.field(kw_only=True)

    def run(self, context: StepContext) -> None:  # noqa: ARG002
        raise errors.Forbidden(self.why)


def wait_or_repair(
    context: StepContext, doing: str, seconds: float, repair: RepairStep, with_reason: bool = True
) -> PollAgain:
    """Wait for a resource whose state does not change; repair it when it counts as lost.

    :param doing: a description for users, "The server has been deleting"
    :param seconds: until it counts as lost
    :param with_reason: whether the user gets a reason after half of that time
    :raises climate_core.exceptions.Transient: the service may not repair it, or it failed
    """
    # Poll in time for it to count as lost.
    left = max(1.0, seconds - context.progress.quiet(context.now))
    usual = context.wait(doing)
    usual = dataclasses.replace(usual, seconds=min(usual.seconds, left))
    if context.age < seconds / 2:
        return usual
    since = f'{doing} without a change for {_format_minutes(context.age)}'
    later = context.put_off(doing)
    if not context.is_due(seconds):
        reason = f'{since}. It counts as lost after {_format_minutes(seconds)}.'
        before = context.progress.reason
        if before and before.startswith(doing) and context.age >= seconds:
            # What an administrator has to do stays in the reason.
            reason = before
        return dataclasses.replace(usual, reason=reason) if with_reason else usual
    failed = context.count_failure()
    try:
        repair.run(context)
    except errors.Busy:
        return dataclasses.replace(later, reason=f'{since}.') if with_reason else later
    except (errors.Forbidden, errors.Gone) as exc:
        # A service without the right to see a resource gets 404 for it.
        why = (
            f'{since} and is lost. The service may not repair it ({exc}): an administrator must '
            f'run: {repair.command}'
        )
        raise exceptions.Transient(
            why, {**(failed.put_off().progress or {}), 'reason': why}
        ) from exc
    except exceptions.Permanent as exc:
        raise exceptions.Transient(
            f'{since} and is lost: {exc}', failed.put_off().progress
        ) from exc
    except exceptions.PluginFailure as exc:
        raise exceptions.Transient(f'{since} and is lost: {exc}', later.progress) from exc
    after = failed if repair.is_failure else context
    if repair.request_name:
        after = after.note(repair.request_name)
    later = after.put_off(doing)
    return dataclasses.replace(later, reason=f'{since}: {repair.outcome}', repair=repair.name)


def wait_for_operator(
    context: StepContext, doing: str, seconds: float, why: str, command: str
) -> PollAgain:
    """Wait for a resource that only an administrator can repair; name the command when it is lost.

    :param why: what prevents the service from it
    """
    return wait_or_repair(context, doing, seconds, _OperatorStep('leave', '', command, why=why))


def _format_minutes(seconds: float) -> str:
    return f'{seconds / 60:.0f} minutes' if seconds >= 90 else f'{seconds:.0f} seconds'


def connect_as_owner(cloud: 'Cloud', lease: 'Lease') -> 'connections.Connection':
    """Return the connection with the rights that the owner left with the lease.

    :raises climate_core.exceptions.Permanent: there are none, or they are no more
    :raises climate_core.exceptions.Transient: Keystone does not answer
    """
    if not lease.trust_id:
        raise exceptions.Permanent('The lease has no trust of its owner.')
    return cloud.owner(lease.trust_id)


def connect_at_end(cloud: 'Cloud', lease: 'Lease') -> 'connections.Connection':
    """Return the owner's connection; that of the service if the owner left none.

    :raises climate_core.exceptions.Transient: Keystone does not answer
    """
    try:
        return connect_as_owner(cloud, lease)
    except exceptions.Permanent as exc:
        LOG.warning('Ending lease %s with the rights of the service: %s', lease.id, exc)
        return cloud.service()
