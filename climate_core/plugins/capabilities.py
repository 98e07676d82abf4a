# SPDX-License-Identifier: Apache-2.0
"""Capabilities of some types of resources; their plugins inherit from these classes.

``isinstance(plugin, Shrinkable)`` returns whether active reservations of a type can release a part
of their units. See :class:`climate_core.plugins.base.ResourcePlugin` for what all types do.
"""

import abc
import datetime
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from climate_core.plugins.base import Done, PollAgain, ReservedResource, ResourcePlugin

if TYPE_CHECKING:
    from climate_core.calendar.model import Demand
    from climate_core.context import RequestContext
    from climate_core.lease.model import Lease, Reservation


class ProvisionedResource(NamedTuple):
    """A resource that was created for a reservation, as its own service reports.

    :param is_ours: whether only Climate can have created it, also for a purged reservation
    """

    resource_id: str
    reservation_id: str
    is_ours: bool


class Prepared(ResourcePlugin):
    """A type that does something before the start of its lease."""

    @abc.abstractmethod
    def make(
        self,
        context: 'RequestContext',
        lease_id: str,
        values: Mapping[str, Any],
        claimed: ReservedResource,
    ) -> ReservedResource:
        """Create it, with the rights of the user, right before its lease is committed.

        Another call for the same lease finds what the first call created. If it was ``made``, and
        the lease is not committed, :meth:`LeaseManaged.discard` is called.

        :param claimed: what :meth:`reserve` returned
        :returns: the same, with the new id, and whether and when it is prepared
        """

    @abc.abstractmethod
    def prepare(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | Done | None:
        """Do what it needs between the commit of its lease and the start, as the owner.

        What is not done by the start is left to :meth:`start`. After ``Permanent`` it is rolled
        back.

        :returns: None or :class:`.base.Done` when it is done, else a :class:`.base.PollAgain`
        """

    def rollback_prepare(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | None:
        """Free what could not be prepared, as :meth:`end` does, whatever its end action is."""
        return self.end(lease, reservation)


class Specified(Prepared):
    """A type whose resources a request can specify, to be created for the lease."""

    def check_now(self, context: 'RequestContext', values: Mapping[str, Any]) -> None:
        """Check what may be wrong now and right later, of what is created with the lease.

        It is called after :meth:`reserve`, unless the resource is created at the start.

        :raises climate_core.exceptions.ClimateError: its service would reject it now
        """

    def list_exclusive(
        self,
        values: Mapping[str, Any],  # noqa: ARG002
    ) -> Iterable[tuple[str, Hashable]]:
        """List what only one resource of a request can have: the fields, and keys."""
        return ()

    def check_match(self, reservation: 'Reservation', values: Mapping[str, Any]) -> None:
        """Check what was found by a key of a request, where a key is only a name.

        :raises climate_core.exceptions.NameTaken: it is something else under the same name
        """


class UserOfResources(ResourcePlugin):
    """A type that uses other resources of its lease, and may start before those that it does not.

    :meth:`blocks` of the other types reads what was found.
    """

    @abc.abstractmethod
    def find_uses(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | None:
        """Find which other resources a resource uses, before it waits for any at the start.

        :returns: a :class:`.base.PollAgain` with the progress that records it; None if that is
            known, or there is nothing to find
        """


class FastStarting(ResourcePlugin):
    """A type whose start can be confirmed with one read."""

    @abc.abstractmethod
    def is_awake(self, lease: 'Lease', reservation: 'Reservation') -> bool:
        """Return whether :meth:`start` would find nothing left to do; read only.

        It is called when that is likely, before a manager has claimed the start. If it returns
        False, :meth:`start` is called as usual.
        """


class CalendarBacked(ResourcePlugin):
    """A type whose units the calendar allocates."""

    #: The kind of the units.
    unit_kind: ClassVar[str]

    @abc.abstractmethod
    def wanted(self, reservation: 'Reservation') -> 'Demand':
        """Return what the calendar has to allocate to a reservation. Pure.

        :raises climate_core.exceptions.BadRequest: it was changed to something without meaning
        """

    def cleaning(self, reservation: 'Reservation') -> datetime.timedelta:  # noqa: ARG002
        """Return how long allocated units stay free after the end is complete."""
        return datetime.timedelta(0)

    def used_units(self, reservation: 'Reservation') -> Collection[int]:
        """Return the units that a reservation still uses after its end has started.

        :returns: their ids, as far as the last call of :meth:`end` found out
        """
        return {allocation.unit_id for allocation in reservation.allocations}

    def reallocate(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | Done | None:
        """Follow the calendar, whose allocations changed after the start of the lease.

        It starts what is new and puts what is in ``released`` out of use, without ending anything.

        :returns: None or :class:`.base.Done` when it is done, else a :class:`.base.PollAgain`
        """
        return self.start(lease, reservation)


class Shrinkable(CalendarBacked):
    """A type whose active reservations can release a part of their units."""

    @abc.abstractmethod
    def choose_retained(self, reservation: 'Reservation', most: int) -> Mapping[int, int]:
        """Choose which of its units an active reservation retains; change nothing.

        :param most: maximum number of pieces that it retains
        :returns: the number of pieces of each unit that it retains, by the ids of the units
        :raises climate_core.exceptions.InvalidState: more of them are in use
        """

    @abc.abstractmethod
    def close_released(self, reservation: 'Reservation', left: Mapping[int, int]) -> None:
        """Close what a reservation releases, then check that it is not used.

        :meth:`reallocate` undoes it if the reservation has all of it after all.

        :param left: as :meth:`choose_retained` returned it
        :raises climate_core.exceptions.InvalidState: it is used by now
        """


class Preemptible(ResourcePlugin):
    """A type whose leases can be preemptible: what runs in it can be stopped and started again."""

    @abc.abstractmethod
    def preempt(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | Done | None:
        """Put out of use what another lease needs; this lease is queued from then on.

        It is retried forever. What :class:`.base.Done` carries is stored for the next
        :meth:`start`.

        :returns: None or :class:`.base.Done` when it is done, else a :class:`.base.PollAgain`
        """


class Lockable(Preemptible):
    """A type whose resources :meth:`preempt` locks."""

    @abc.abstractmethod
    def list_locked(self) -> Iterable[str]:
        """Yield the ids of all resources that :meth:`preempt` has locked, with service rights."""

    @abc.abstractmethod
    def unlock(
        self, resource_id: str, lease_id: str | None = None, may_sleep: bool = True
    ) -> bool:
        """Undo the lock of a resource that no lease needs; twice does no harm.

        :param lease_id: of the lease whose lock alone is undone; None: that of any lease
        :param may_sleep: whether that of a resource that is inactive by now is undone, too
        :returns: whether there was such a lock
        """


class Evacuable(ResourcePlugin):
    """A type whose resources lose what runs in them when they are moved."""

    @abc.abstractmethod
    def find_moved(self, reservations: Sequence['Reservation']) -> Mapping[str, str]:
        """Find resources that lost what ran in them when they were moved, with service rights.

        :returns: reservation id -> what happened to its resource, a sentence
        """


class Reported(ResourcePlugin):
    """A type whose service reports what new resources hold, which is verified later."""

    @abc.abstractmethod
    def read_reported(
        self, lease: 'Lease', reservation: 'Reservation'
    ) -> Mapping[str, int] | None:
        """Read what a resource holds that its service reported, with the service's own rights.

        :returns: amounts by unit; None: its service does not report them now
        :raises climate_core.cloud.errors.Gone: it does not exist
        :raises climate_core.plugins.base.NotOfLease: it is another project's, or waits for another
            lease
        """


class LeaseManaged(ResourcePlugin):
    """A type whose resources can be left behind without a lease."""

    #: Shown to operators for a resource without a lease.
    orphaned: ClassVar[str] = 'it waits for no lease'

    def list_unleased(self) -> Iterable[str]:
        """Yield the ids of all resources that wait to be started, with service rights."""
        return ()

    def list_made(self) -> Iterable[ProvisionedResource]:
        """Yield what was created for reservations of leases, with the service's own rights."""
        return ()

    @abc.abstractmethod
    def unleased_since(self, resource_id: str) -> datetime.datetime | None:
        """Return when a resource last changed, with the service's own rights.

        :returns: None if it does not wait to be started (any more), or that is not known
        """

    @abc.abstractmethod
    def discard(self, resource_id: str) -> None:
        """Delete a resource that waits for a missing lease; a deleted resource is a success."""


class HostBacked(CalendarBacked):
    """A type that reserves hosts or parts of them, which servers enter."""

    @abc.abstractmethod
    def find_matched(self, lease: 'Lease', reservation: 'Reservation') -> Mapping[str, str]:
        """Find the servers that entered an active reservation, perhaps without naming it.

        :returns: the id of each server -> a mark that shows its owner what happens at the end
        """

    @abc.abstractmethod
    def set_mark(self, server_id: str, mark: str) -> None:
        """Show a mark with a server that :meth:`find_matched` found, in place of an earlier one.

        :raises climate_core.cloud.errors.Gone: it is no server, or no longer exists
        """

    @abc.abstractmethod
    def remove_mark(self, server_id: str, mark: str) -> None:
        """Remove a mark from a server, unless it has another one."""
