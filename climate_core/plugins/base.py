# SPDX-License-Identifier: Apache-2.0
"""The interface of a resource plugin.

A plugin handles one type of resource. It never touches the database, never sleeps and stores
nothing: the engine calls it with a reservation, it reads the resource, does the difference and
returns whether that is complete. Repeated calls are normal, so "already done" and "already gone"
are success. ``tests/conformance`` is the suite that every plugin must pass.

Every type of resource is reserved, started, ended and reconciled: :class:`ResourcePlugin`. What
only some types can do is a class that their plugins inherit from, too, so that
``isinstance(plugin, Shrinkable)`` returns whether active reservations of a type can release a part
of their units.

Its methods raise :class:`climate_core.exceptions.Transient` if they are to be retried later, and
``Permanent`` if a retry does not help; methods that serve a request raise ``ClimateError``.
"""

import abc
import dataclasses
import datetime
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from oslo_config import cfg

from climate_core import exceptions
from climate_core.lease import model

if TYPE_CHECKING:
    from climate_core.calendar.model import Demand
    from climate_core.cloud import Cloud
    from climate_core.context import RequestContext
    from climate_core.lease.model import Lease, Reservation


@dataclasses.dataclass(frozen=True, slots=True)
class PollAgain:
    """The action is in progress: poll the resource again in ``seconds``.

    :param reason: a sentence for the user if that takes unusually long
    :param progress: what the next call gets as ``reservation.progress``, JSON types only; None
        leaves it unchanged. It is never shown. ``Transient`` and ``Permanent`` carry it as well
    :param repair: the name of a repair that was just done, for the metrics
    :param resource_id: the id of a resource that was just created for its lease
    """

    seconds: float
    reason: str | None = None
    progress: Mapping[str, Any] | None = None
    repair: str | None = None
    resource_id: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Done:
    """The action is complete; the next call gets ``progress`` as ``reservation.progress``."""

    progress: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NotificationSource:
    """Describe the notifications of a service about the resources of one type.

    :param group: the section of climate.conf with the options of the notifications
    :param ids: the fields of a payload that may have the id of the resource
    :param lost: the event types without prefix after which a resource may be lost
    :param moved: those after which it may have lost what ran in it, see
        :class:`Evacuable`
    :param done: those after which the lease polls its resource
    :param prefix: what event types may begin with
    """

    group: str
    ids: Sequence[str]
    lost: Collection[str]
    moved: Collection[str] = ()
    done: Collection[str] = ()
    prefix: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class ReservedResource:
    """The result of :meth:`ResourcePlugin.reserve`.

    :param resource_id: the id of the resource in its own service
    :param params: stored with the reservation and shown in the API, JSON types only; names that
        begin with ``_`` are never shown
    :param amounts: its amounts by unit, for limits and usage: ``servers``, ``vcpus``,
        ``memory_mb``, ``disk_gb``, ``volumes``, ``gigabytes``, ``stacks``
    :param is_created: whether :meth:`Prepared.make` has just created it, so that it is
        discarded if its lease is not committed
    :param prepare: whether :meth:`Prepared.prepare` has something to do
    :param prepare_before: how long before the start it does that; None: immediately
    :param parent_id: the id of the resource of the same lease that this one is a part of, as a
        server is of its stack
    :param unit_kind: the kind of units that the calendar allocates to it, see
        :class:`CalendarBacked`; None: its own service claims its capacity
    :param others: further resources of the same part of the request
    """

    resource_id: str
    params: Mapping[str, Any]
    amounts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    is_created: bool = False
    prepare: bool = False
    prepare_before: datetime.timedelta | None = None
    parent_id: str | None = None
    unit_kind: str | None = None
    others: Sequence['ReservedResource'] = ()

    def to_reservation(
        self, lease_id: str, resource_type: str, now: datetime.datetime
    ) -> model.Reservation:
        """Return the new reservation of a lease that holds it."""
        return model.new_reservation(
            lease_id,
            resource_type,
            self.resource_id,
            self.params,
            now,
            self.amounts,
            self.parent_id,
            self.unit_kind,
        )


class NotOfLease(exceptions.Permanent):
    """A resource is not one of the lease that has a reservation of it."""


class ResourcePlugin(abc.ABC):
    """One type of resource that a lease can reserve."""

    #: Name of the type in the API, and of the section in climate.conf.
    resource_type: ClassVar[str]
    title: ClassVar[str]
    description: ClassVar[str]
    #: Options of the section ``[<resource_type>]``.
    options: ClassVar[Sequence[cfg.Opt]] = ()
    #: JSON Schema properties that a reservation of this type takes besides ``resource_type``. What
    #: the API never shows of them is ``writeOnly``.
    schema: ClassVar[Mapping[str, Any]]
    #: Names of those properties that must be given.
    required: ClassVar[Sequence[str]] = ()
    #: Names of those that a user may change until the end starts, without a call of the plugin.
    changeable: ClassVar[Sequence[str]] = ()
    #: Names of those that may be changed only before the lease starts -> what the user can do
    #: afterwards, a sentence.
    until_start: ClassVar[Mapping[str, str]] = {}
    #: The service that is called for it, as [engine] service_share counts: a service that hangs
    #: has only a share of the threads. None: a dedicated one.
    service: ClassVar[str | None] = None
    #: Whether :meth:`reserve` calls no service: the calendar alone decides.
    reserves_locally: ClassVar[bool] = False
    #: The notifications about its resources; None: it has none.
    notifications: ClassVar[NotificationSource | None] = None
    #: The place in the order of one lease: a resource of a lower rank is active before those of a
    #: higher one are started, and is ended after them. A server uses volumes, so it comes later.
    rank: ClassVar[int] = 20
    #: The place at the end, the highest first, if it is not that at the start backwards. A stack
    #: starts its members and ends them, too: it is the first in both.
    rank_at_end: ClassVar[int | None] = None
    #: Whether the resource outlives its lease in every case and can be reserved again then.
    reusable: ClassVar[bool] = False
    #: Whether Climate works on it with a token of the owner's trust, which is requested before the
    #: start. Then the owner of the lease alone adds resources and changes their values.
    wakes_as_owner: ClassVar[bool] = False

    #: Returns the time, UTC; tests turn it.
    now: Callable[[], datetime.datetime] = staticmethod(
        lambda: datetime.datetime.now(datetime.UTC)
    )

    def __init__(self, conf: cfg.ConfigOpts, cloud: 'Cloud') -> None:
        self.conf = conf
        self.cloud = cloud

    @abc.abstractmethod
    def reserve(
        self, context: 'RequestContext', values: Mapping[str, Any], lease_id: str = ''
    ) -> ReservedResource:
        """Check, with the rights of the user, that it can be reserved; leave nothing behind.

        :param values: the reservation of the request; it has passed :attr:`schema`
        :param lease_id: of a dry run without an id, one that no lease will have
        """

    @abc.abstractmethod
    def start(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | Done | None:
        """Start the resource with the rights of the owner of the lease.

        :returns: None or :class:`Done` when it runs, else a :class:`PollAgain`
        """

    @abc.abstractmethod
    def end(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | None:
        """Do the end action of the reservation and release its capacity; also if it never started.

        It is retried without limit.

        :returns: None when it is done, else a :class:`PollAgain`
        """

    def reconcile(
        self,
        pages: Iterable[Sequence['Reservation']],  # noqa: ARG002
    ) -> Iterator[tuple['Reservation', str]]:
        """Yield reservations whose resource is gone, and what happened to it, a sentence.

        It works with the service's own rights, in one call for each page of a listing; it may list
        all resources once.
        """
        return iter(())

    def blocks(self, own: 'Reservation', other: 'Reservation') -> bool:  # noqa: ARG002
        """Return whether another resource of the lease waits for an unsettled one of this type."""
        return True

    def request_keys(
        self,
        lease_id: str,  # noqa: ARG002
        values: Mapping[str, Any],
    ) -> Sequence[Hashable]:
        """Return, without a call, the keys of the resource that a request specifies.

        A reservation of the lease with one of them, see :meth:`reservation_keys`, is what the
        request specifies; the first key that is found decides.
        """
        return [values.get('resource_id')]

    def reservation_keys(self, reservation: 'Reservation') -> Sequence[Hashable]:
        """Return, without a call, the keys under which a request finds a reservation."""
        return [reservation.resource_id]

    def normalize(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the values of a change, all of them changeable, as they are stored. Pure.

        :raises climate_core.exceptions.BadRequest: one of them is not allowed here
        """
        return values

    def amounts(self, params: Mapping[str, Any]) -> Mapping[str, int] | None:  # noqa: ARG002
        """Return the amounts of a reservation with these params; None: they are unchanged."""
        return None


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
        reserved: ReservedResource,
    ) -> ReservedResource:
        """Create it, or decide when it is prepared, right before its lease is committed.

        What it creates it creates with the rights of the user.

        Another call for the same lease finds what the first call created. If it ``is_created`` and
        the lease is not committed, :meth:`LeaseManaged.discard` is called.

        :param reserved: what :meth:`reserve` returned
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
    def is_started(self, lease: 'Lease', reservation: 'Reservation') -> bool:
        """Return whether :meth:`start` would find nothing left to do; read only.

        It is called when that is likely, before a manager has claimed the start. If it returns
        False, :meth:`start` is called as usual.
        """


class CalendarBacked(ResourcePlugin):
    """A type whose units the calendar allocates."""

    #: The kind of the units.
    unit_kind: ClassVar[str]

    @abc.abstractmethod
    def read_demand(self, reservation: 'Reservation') -> 'Demand':
        """Return what the calendar has to allocate to a reservation. Pure.

        :raises climate_core.exceptions.BadRequest: it was changed to something without meaning
        """

    def cleaning(self, reservation: 'Reservation') -> datetime.timedelta:  # noqa: ARG002
        """Return how long allocated units stay unused after the end is complete."""
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
    def choose_retained(self, reservation: 'Reservation', max_pieces: int) -> Mapping[int, int]:
        """Choose which of its units an active reservation retains; change nothing.

        :param max_pieces: maximum number of pieces that it retains
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
        """Stop and release what another lease needs; this lease is queued from then on.

        It is retried without limit. What :class:`.base.Done` carries is stored for the next
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
    """A type whose service reports the amounts of new resources, which are verified later."""

    @abc.abstractmethod
    def read_reported(
        self, lease: 'Lease', reservation: 'Reservation'
    ) -> Mapping[str, int] | None:
        """Read the amounts of a resource that its service reported, with the service's own rights.

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

    def list_created(self) -> Iterable[ProvisionedResource]:
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
