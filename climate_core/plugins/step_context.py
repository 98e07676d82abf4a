# SPDX-License-Identifier: Apache-2.0
"""The context of one step of a plugin, at the start and at the end of a lease."""

import dataclasses
import datetime
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from climate_core import exceptions
from climate_core.plugins.base import Wait
from climate_core.plugins.progress import FIRST_LOOK, Progress

if TYPE_CHECKING:
    from climate_core.cloud import Cloud, connections
    from climate_core.lease.model import Lease, Reservation

#: Seconds after which the user is told that something has not changed.
LONG: Final = 600.0
#: Seconds until the next look when only the database has to know something first.
AT_ONCE: Final = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class StepContext:
    """One look at one reservation.

    :param conn: the rights to work with: the owner's, or at the end perhaps the service's
    :param progress: what came of the looks before
    :param options: the section of the resource's type in climate.conf
    :param first_look: seconds from a request to the first look at what came of it
    """

    conn: 'connections.Connection'
    cloud: 'Cloud'
    lease: 'Lease'
    reservation: 'Reservation'
    progress: Progress
    now: datetime.datetime
    options: Any = None
    first_look: float = FIRST_LOOK

    @property
    def service(self) -> 'connections.Connection':
        return self.cloud.service()

    @property
    def as_service(self) -> bool:
        """Return whether the service's rights are used because the owner's are gone."""
        return self.conn is self.service

    @property
    def resource_id(self) -> str:
        return self.reservation.resource_id

    @property
    def age(self) -> float:
        """Return the seconds for which the resource has been as it is."""
        return self.progress.age(self.now)

    def seeing(self, *state: object) -> Self:
        """Return the same look with what is seen of the resource."""
        seen = ' '.join(str(each) for each in state)
        return dataclasses.replace(self, progress=self.progress.with_state(seen, self.now))

    def is_due(self, seconds: float) -> bool:
        """Tell whether nothing changed and nothing was asked for in so many seconds."""
        return self.progress.quiet(self.now) >= seconds

    def note(self, asked: str | None) -> Self:
        """Return the same look with another last request."""
        return dataclasses.replace(self, progress=self.progress.with_intention(asked))

    def count_failure(self) -> Self:
        """Return the same look with one more failure; what was seen stays as old as it is."""
        failures = self.progress.failures + 1
        progress = dataclasses.replace(self.progress, failures=failures)
        return dataclasses.replace(self, progress=progress)

    def wait(self, doing: str | None = None) -> Wait:
        """Return the wait until the next look.

        :param doing: what is waited for, which the user is told when it takes long
        """
        reason = f'{doing} for a long time already.' if doing and self.age >= LONG else None
        return self._later(self.progress, reason)

    def put_off(self, doing: str | None = None) -> Wait:
        """Return a wait after a request that the service does not take now."""
        return dataclasses.replace(self, progress=self.progress.put_off(self.now)).wait(doing)

    def rest(self) -> Wait | None:
        """Return what is left of the pause after a failure; None if that is over."""
        seconds = self.progress.rest(self.now)
        return Wait(seconds, self.progress.reason, self.progress.dump()) if seconds else None

    def failure(self, reason: str) -> exceptions.Transient:
        """Make the exception for something that was asked for and did not come about."""
        failed = self.progress.with_failure(reason, self.now)
        return exceptions.Transient(reason, failed.dump())

    def again(self, what: str, failed: Callable[[], str]) -> Wait | None:
        """Return the pause before the next try of what did not come about, if there is any.

        :param failed: says what went wrong, for the exception if it went wrong just now
        """
        if self.progress.asked == what:
            raise self.failure(failed())
        return self.rest()

    def once(self, what: str, failed: Callable[[], str], request: Callable[[], None]) -> Wait:
        """Ask for something; after a failure tell that as :meth:`again`, pause, and ask again."""
        return self.again(what, failed) or self.ask(what, request)

    def ask(self, what: str, request: Callable[[], None]) -> Wait:
        """Ask for something whatever became of it before; a refusal is a failure, too."""
        try:
            request()
        except exceptions.Permanent as exc:
            exc.progress = self.progress.with_failure(str(exc), self.now).dump()
            raise
        return self.first_wait(what)

    def first_wait(self, what: str) -> Wait:
        """Return the first wait after a request that was accepted."""
        return self._later(self.progress.with_request(what, self.now))

    def intend(self, what: str) -> Wait:
        """Return a wait that saves the intention of a request before it is sent.

        A manager that dies after the request leaves that to the next one, which asks no more.
        """
        return Wait(AT_ONCE, None, self.progress.with_intention(what).dump())

    def _later(self, progress: Progress, reason: str | None = None) -> Wait:
        seconds = progress.next_poll(self.now, self.first_look)
        return Wait(seconds, reason, progress.dump())


@dataclasses.dataclass(frozen=True, slots=True)
class EndContext(StepContext):
    """One look at the end of one reservation, which has the end action that it has now.

    :param prefix: what the name of an image, a copy or a snapshot begins with
    """

    prefix: str = dataclasses.field(kw_only=True)

    @property
    def on_end(self) -> str:
        return str(self.reservation.params.get('on_end', 'delete'))

    def with_on_end(self, on_end: str) -> Self:
        """Return the same look with another end action."""
        params = {**self.reservation.params, 'on_end': on_end}
        reservation = dataclasses.replace(self.reservation, params=params)
        return dataclasses.replace(self, reservation=reservation)

    @property
    def has_run(self) -> bool:
        """Return whether it was ever noted as awake, also if it is not active any more."""
        return self.reservation.status == 'active' or self.reservation.woken_at is not None


#: What is done at the end with a resource as its service shows it; None when it is done.
Step = Callable[[EndContext, Mapping[str, Any]], Wait | None]


def done(context: EndContext, found: Mapping[str, Any]) -> None:
    """Leave a resource as it is."""


def refuse(reason: str) -> Step:
    """Return a step that leaves a resource to a person.

    :param reason: says what they have to do; ``{status}`` in it is that of the resource
    """

    def step(context: EndContext, found: Mapping[str, Any]) -> Wait:  # noqa: ARG001
        raise exceptions.Transient(reason.format(status=found['status']))

    return step
