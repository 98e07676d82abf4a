# SPDX-License-Identifier: Apache-2.0
"""The interface of a resource plugin.

A plugin knows one type of resource. It never touches the database, never sleeps and remembers
nothing: the engine calls it with a reservation, it looks at the resource, does the difference and
says whether the resource is there. What it wants to know at the next look it gives back with its
answer. Being called twice with the same reservation is normal, so "already done" and "already
gone" are success.

Plugins are found by stevedore in the namespace ``climate.resource.plugins`` and enabled by name
in climate.conf. ``tests/conformance`` is the suite that every plugin must pass.
"""

import abc
import dataclasses
import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from oslo_config import cfg

from climate_core import exceptions

if TYPE_CHECKING:
    from climate_core.cloud import Cloud
    from climate_core.context import RequestContext
    from climate_core.lease.model import Lease, Reservation


@dataclasses.dataclass(frozen=True, slots=True)
class Wait:
    """The resource is on its way: look again in ``seconds``.

    :param reason: a sentence for the user if that takes strangely long
    :param progress: what is kept with the reservation until the next look, JSON types only; None
        leaves it as it is. The next look gets it as ``reservation.progress``. It is never shown.
        :class:`climate_core.exceptions.Transient` and ``Permanent`` carry it as well
    :param repair: the name of what was just repaired, for the metrics
    """

    seconds: float
    reason: str | None = None
    progress: Mapping[str, Any] | None = None
    repair: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Claimed:
    """The result of :meth:`ResourcePlugin.reserve`.

    :param resource_id: the id of the resource in its own service
    :param params: what the plugin wants to be kept with the reservation and shown in the API;
        JSON types only. What has a name that begins with ``_`` is kept and never shown
    :param amounts: how much it holds, by unit, for limits and usage: ``servers``, ``vcpus``,
        ``memory_mb``, ``disk_gb``, ``volumes``, ``gigabytes``, ``stacks``
    :param made: whether :meth:`ResourcePlugin.make` has just made it, so that it is discarded if
        no lease comes of it
    :param prepare: whether :meth:`ResourcePlugin.prepare` has something to do
    :param parent_id: the id of the resource of the same lease that this one is a part of, as a
        server is of its stack
    """

    resource_id: str
    params: Mapping[str, Any]
    amounts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    made: bool = False
    prepare: bool = False
    parent_id: str | None = None


class ResourcePlugin(abc.ABC):
    """One type of resource that a lease can reserve."""

    #: Name of the type in the API, and of the section in climate.conf.
    resource_type: ClassVar[str]
    title: ClassVar[str]
    description: ClassVar[str]
    #: Options of the section ``[<resource_type>]``.
    options: ClassVar[Sequence[cfg.Opt]] = ()
    #: JSON Schema properties that a reservation of this type takes besides ``resource_type``.
    schema: ClassVar[Mapping[str, Any]]
    #: Names of those properties that must be given.
    required: ClassVar[Sequence[str]] = ()
    #: Names of those properties that a user may change until the end of the reservation begins.
    #: The new value takes the place of the old one in the params, nothing is asked of the plugin.
    changeable: ClassVar[Sequence[str]] = ()
    #: The place in the order of one lease: a resource of a lower rank is awake before those of a
    #: higher one are woken, and is ended after them. A server uses volumes, so it comes later.
    rank: ClassVar[int] = 20
    #: The place at the end, the highest first, where it is not the place at the start backwards. A
    #: stack wakes its members and ends them, too: it is the first in both.
    rank_at_end: ClassVar[int | None] = None
    #: Whether the resource outlives its lease in every case and can be reserved again then.
    reusable: ClassVar[bool] = False

    #: Whether a resource can be woken with the rights of its own user only: no other user of the
    #: project can let it join a lease.
    owner_only: ClassVar[bool] = False

    #: Returns the time, UTC; tests turn it.
    now: Callable[[], datetime.datetime] = staticmethod(
        lambda: datetime.datetime.now(datetime.UTC)
    )

    def __init__(self, conf: cfg.ConfigOpts, cloud: 'Cloud') -> None:
        self.conf = conf
        self.cloud = cloud

    @abc.abstractmethod
    def reserve(self, context: 'RequestContext', values: Mapping[str, Any]) -> Claimed:
        """Check, with the rights of the user, that this resource can be reserved.

        Called before the lease is written; must leave nothing behind if the lease is not.

        :param context: the request of the user who makes the lease
        :param values: the reservation of the request; it has passed :attr:`schema`
        :raises climate_core.exceptions.ResourceNotFound: not there, or not in this project
        :raises climate_core.exceptions.BadRequest: it cannot be reserved
        :raises climate_core.exceptions.ServiceUnavailable: its service does not answer
        """

    def reserve_for(
        self,
        context: 'RequestContext',
        lease_id: str,  # noqa: ARG002
        values: Mapping[str, Any],
    ) -> Claimed:
        """Check as :meth:`reserve` does, if it matters for which lease.

        That is so for what is made for its lease: a request that was broken off may have made it.

        :param lease_id: of a dry run without an id, one that no lease will have
        """
        return self.reserve(context, values)

    def matches_request(self, reservation: 'Reservation', values: Mapping[str, Any]) -> bool:
        """Tell, without a call, whether a lease has what a request asks for in a reservation.

        :raises climate_core.exceptions.NameTaken: it has something else under the same name
        """
        return reservation.resource_id == values.get('resource_id')

    def make(
        self,
        context: 'RequestContext',  # noqa: ARG002
        lease_id: str,  # noqa: ARG002
        values: Mapping[str, Any],  # noqa: ARG002
        claimed: Claimed,
    ) -> Claimed:
        """Make the resource, with the rights of the user, if it is made for its lease.

        Called once everything else is granted, right before the lease is written. Being called
        again for the same lease finds what the first call made.

        :param values: as in :meth:`reserve`
        :param claimed: what that found
        :returns: the same with the id of the resource. If ``made``, and the lease is not written
            in the end, :meth:`discard` is called
        :raises climate_core.exceptions.ClimateError: it cannot be made, and nothing is left
        """
        return claimed

    def prepare(self, lease: 'Lease', reservation: 'Reservation') -> Wait | None:  # noqa: ARG002
        """Do what a resource needs once its lease is written, with the rights of the owner.

        Called before the start only. What is not done by then is left to :meth:`wake_up`, which
        must be ready for that.

        :returns: None when it is done, a :class:`Wait` when it is on its way
        :raises climate_core.exceptions.Transient: try again later
        :raises climate_core.exceptions.Permanent: it cannot be held; :meth:`rollback_prepare`
            comes next
        """
        return None

    def rollback_prepare(self, lease: 'Lease', reservation: 'Reservation') -> Wait | None:
        """Free what could not be prepared, as :meth:`end` does, whatever its end action is."""
        return self.end(lease, reservation)

    def blocks(self, own: 'Reservation', other: 'Reservation') -> bool:  # noqa: ARG002
        """Tell whether another resource of the lease waits for one of ours, at both ends.

        Asked only of what comes before the other in the order, and is not settled.
        """
        return True

    def find_uses(self, lease: 'Lease', reservation: 'Reservation') -> Wait | None:  # noqa: ARG002
        """Look up which other resources a resource uses, before it waits for any at the start.

        :returns: a :class:`Wait` with the progress that says it, for :meth:`blocks`; None if that
            is known, or there is nothing to know
        :raises climate_core.exceptions.Transient: it waits for all as long as it is not known
        """
        return None

    @abc.abstractmethod
    def wake_up(self, lease: 'Lease', reservation: 'Reservation') -> Wait | None:
        """Bring the resource to life with the rights of the lease's owner.

        :returns: None when it runs, a :class:`Wait` when it is on its way
        :raises climate_core.exceptions.Transient: try again later
        :raises climate_core.exceptions.Permanent: it will never run
        """

    @abc.abstractmethod
    def end(self, lease: 'Lease', reservation: 'Reservation') -> Wait | None:
        """Do the end action of the reservation and free its capacity.

        A resource that was never woken is always freed. One that is gone is success.

        :returns: None when it is done, a :class:`Wait` when it is on its way
        :raises climate_core.exceptions.Transient: try again later (the end is retried for ever)
        """

    def find_missing(
        self,
        reservations: Sequence['Reservation'],  # noqa: ARG002
    ) -> Mapping[str, str]:
        """Find resources that are gone without the lease knowing, with the service's own rights.

        Cost must not grow with resources that are not asked about: one call per page, not one
        per reservation.

        :returns: reservation id -> a sentence that says what happened to its resource
        """
        return {}

    def list_unleased(self) -> Iterable[str]:
        """Give the ids of all resources that wait to be woken, with the service's own rights.

        Those that no lease holds are reported to the operator.
        """
        return ()

    def unleased_since(self, resource_id: str) -> datetime.datetime | None:  # noqa: ARG002
        """Tell when a resource changed for the last time, with the service's own rights.

        An operator's repair deletes one that no lease holds only if that is long ago.

        :returns: None if it does not wait to be woken (any more), or its service cannot tell
        """
        return None

    def discard(self, resource_id: str) -> None:
        """Delete a resource that waits for a lease that is not there; one that is gone is fine.

        :raises climate_core.exceptions.Transient: try again later
        :raises climate_core.exceptions.Permanent: its service does not let us
        """
        raise exceptions.Permanent(f'{self.title} {resource_id} cannot be deleted from here.')
