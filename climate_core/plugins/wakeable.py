# SPDX-License-Identifier: Apache-2.0
"""A resource whose own service holds its capacity while it sleeps.

That is what servers, volumes and stacks have in common: it is there before its lease, it is woken
with the rights of the lease's owner and ended with them, or with the service's if the owner left
none. Each look takes one step; what was asked for is kept with the reservation between the looks.
"""

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from oslo_config import cfg

from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.plugins import base, missing, parent_stacks, progress, rights
from climate_core.plugins.base import Wait
from climate_core.plugins.progress import Progress
from climate_core.plugins.step_context import EndContext, StepContext

if TYPE_CHECKING:
    from openstack import connection

    from climate_core.cloud import Cloud
    from climate_core.lease.model import Lease, Reservation


class Calls(Protocol):
    """The calls to the service of a resource: a module of :mod:`climate_core.cloud`."""

    def get(self, conn: 'connection.Connection', resource_id: str, /) -> Any:
        """Return the resource as its service shows it.

        :raises climate_core.cloud.errors.Gone: there is none for these rights
        """

    def every_id(self, conn: 'connection.Connection', /) -> Iterable[str]:
        """Give the ids of all resources of all projects."""

    def check_all_visible(self, conn: 'connection.Connection', /) -> None:
        """Do nothing if these rights see the resources of every project.

        :raises climate_core.cloud.errors.Refused: they do not
        """


class WakeablePlugin(base.ResourcePlugin):
    """Reserve resources of one type that sleep until they are woken.

    A subclass gives the class attributes, and what is done in which state of a resource:
    :meth:`reserve`, :meth:`_wake`, :meth:`_end`. It has an option ``on_end`` in its section.
    """

    required: ClassVar[Sequence[str]] = ('resource_id',)
    changeable = ('on_end',)

    #: The calls to its service.
    calls: ClassVar[Calls]
    #: Says that a resource is no more, without a full stop.
    gone: ClassVar[str]
    #: The name of the option that says what the name of a copy begins with.
    prefix: ClassVar[str]

    def __init__(self, conf: cfg.ConfigOpts, cloud: 'Cloud') -> None:
        super().__init__(conf, cloud)
        self._parents = parent_stacks.ParentStacks(cloud)

    @abc.abstractmethod
    def _wake(self, context: StepContext, found: Any) -> Wait | None:
        """Take the next step of the wake-up, with the rights of the lease's owner.

        :param found: the resource, as its service shows it now
        :returns: see :meth:`wake_up`
        :raises climate_core.cloud.errors.Gone: the resource is no more
        :raises climate_core.exceptions.Transient, climate_core.exceptions.Permanent: see there
        """

    @abc.abstractmethod
    def _end(self, context: EndContext) -> Wait | None:
        """Take the next step of the end.

        :returns: None when it is done
        :raises climate_core.cloud.errors.Gone: the resource is no more
        :raises climate_core.exceptions.Transient, climate_core.exceptions.Permanent: it is tried
            again after both
        """

    def _is_there(self, found: Any) -> bool:  # noqa: ARG002
        """Tell whether a resource that its service shows is more than the memory of one."""
        return True

    def _params(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is kept of a request for a reservation."""
        on_end = values.get('on_end') or self.conf[self.resource_type].on_end
        return {'on_end': on_end, **parent_stacks.params(values)}

    def _claimed(
        self, resource_id: str, values: Mapping[str, Any], amounts: Mapping[str, int]
    ) -> base.Claimed:
        """Return the answer of :meth:`reserve` for a resource that is there."""
        parent_id = values.get(parent_stacks.KEY)
        return base.Claimed(resource_id, self._params(values), amounts, parent_id=parent_id)

    def wake_up(self, lease: 'Lease', reservation: 'Reservation') -> Wait | None:
        if parent_stacks.woken_by_heat(lease, reservation):
            return None
        return self._start(self._wake, lease, reservation)

    def _start(
        self,
        step: Callable[[StepContext, Any], Wait | None],
        lease: 'Lease',
        reservation: 'Reservation',
    ) -> Wait | None:
        """Take a step before the end with the rights of the owner and the resource as it is now.

        :raises climate_core.exceptions.Permanent: the resource is no more, or see the step
        """
        now = self.now()
        kept = Progress.load(reservation.progress, progress.START, now)
        owner = rights.owner(self.cloud, lease)
        options = self.conf[self.resource_type]
        context = StepContext(owner, self.cloud, lease, reservation, kept, now, options)
        try:
            return step(context, self.calls.get(owner, reservation.resource_id))
        except errors.Gone as exc:
            raise exceptions.Permanent(f'{self.gone}.') from exc

    def end(self, lease: 'Lease', reservation: 'Reservation') -> Wait | None:
        conn = rights.at_end(self.cloud, lease)
        try:
            return self._next(conn, lease, reservation)
        except exceptions.Permanent as exc:
            # It holds capacity as long as it is there.
            raise exceptions.Transient(str(exc), exc.progress) from exc

    def _next(
        self, conn: 'connection.Connection', lease: 'Lease', reservation: 'Reservation'
    ) -> Wait | None:
        """Take the next step of the end; what is gone is at its end.

        :raises climate_core.cloud.errors.Refused: the service cannot tell that it is gone
        """
        now, options = self.now(), self.conf[self.resource_type]
        context = EndContext(
            conn,
            self.cloud,
            lease,
            self._parents.at_end(conn, lease, reservation),
            Progress.load(reservation.progress, progress.END, now),
            now,
            options,
            prefix=options[self.prefix],
        )
        try:
            return self._end(context)
        except errors.Gone:
            if context.as_service:
                self.calls.check_all_visible(conn)
            return None

    def find_missing(self, reservations: Sequence['Reservation']) -> Mapping[str, str]:
        if not reservations:
            return {}
        conn = self.cloud.service()
        # Without the right to see every project each resource would look gone.
        self.calls.check_all_visible(conn)
        found = missing.find(
            reservations,
            lambda: self.calls.every_id(conn),
            lambda each: self._exists(conn, each),
        )
        return {each.id: f'{self.gone} outside of the lease.' for each in found}

    def _exists(self, conn: 'connection.Connection', resource_id: str) -> bool:
        try:
            return self._is_there(self.calls.get(conn, resource_id))
        except errors.Gone:
            return False
