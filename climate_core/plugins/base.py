# SPDX-License-Identifier: Apache-2.0
"""The interface of a resource plugin.

A plugin handles one type of resource. It never touches the database, never sleeps and stores
nothing: the engine calls it with a reservation, it reads the resource, does the difference and
returns whether that is complete. Repeated calls are normal, so "already done" and "already gone"
are success. ``tests/conformance`` is the suite that every plugin must pass.

Every type of resource is reserved, started, ended and reconciled: :class:`ResourcePlugin`. What
only some types can do is a class of :mod:`climate_core.plugins.capabilities` that their plugins
inherit from, so ``isinstance`` returns what a plugin can do.

Its methods raise :class:`climate_core.exceptions.Transient` if they are to be retried later, and
``Permanent`` if a retry does not help; methods that serve a request raise ``ClimateError``.
"""

import abc
import dataclasses
import datetime
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from oslo_config import cfg

from climate_core import exceptions
from climate_core.lease import model

if TYPE_CHECKING:
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
        :class:`.capabilities.Evacuable`
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
    :param amounts: what it holds, by unit, for limits and usage: ``servers``, ``vcpus``,
        ``memory_mb``, ``disk_gb``, ``volumes``, ``gigabytes``, ``stacks``
    :param made: whether :meth:`.capabilities.Prepared.make` has just created it, so that it is
        discarded if its lease is not committed
    :param prepare: whether :meth:`.capabilities.Prepared.prepare` has something to do
    :param prepare_before: how long before the start it does that; None: immediately
    :param parent_id: the id of the resource of the same lease that this one is a part of, as a
        server is of its stack
    :param unit_kind: the kind of units that the calendar allocates to it, see
        :class:`.capabilities.CalendarBacked`; None: its own service holds its capacity
    :param others: further resources of the same part of the request
    """

    resource_id: str
    params: Mapping[str, Any]
    amounts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    made: bool = False
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

        It is retried forever.

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
        """Return, without a call, the keys of what a request asks for in a reservation.

        A reservation of the lease with one of them, see :meth:`reservation_keys`, is what the
        request asks for; the first key that is found decides.
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
        """Return what a reservation holds with these params; None: it holds what it held."""
        return None
