# SPDX-License-Identifier: Apache-2.0
"""Errors with their HTTP status, a stable machine code and the invalid field.

All errors that a user can cause are a :class:`ClimateError`. The API turns it into a response in
one place (``climate_core.api``), and RPC carries it from the manager unchanged, so these classes
must be constructible from ``(message, **kwargs)``, of which all but the message may be missing.
Their docstrings are the default messages.

:class:`Transient` and :class:`Permanent` never reach the API: plugins raise them to show the
engine whether another attempt makes sense.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

#: Maximum characters of a message and of a field; both may repeat values of the request.
_LONGEST: Final = 4000
_LONGEST_FIELD: Final = 500


class ClimateError(Exception):
    """Something was wrong with a request.

    :param message: a sentence for the user: what is wrong and what is accepted
    :param field: the name of the invalid field of the request; None: no field is invalid
    """

    status = 500
    code = 'internal_error'

    def __init_subclass__(cls, status: int | None = None, code: str | None = None) -> None:
        cls.status = status or cls.status
        cls.code = code or cls.code

    def __init__(self, message: str = '', field: str | None = None) -> None:
        super().__init__((message or (type(self).__doc__ or '').strip())[:_LONGEST])
        self.field = field and field[:_LONGEST_FIELD]

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else ''

    @property
    def body(self) -> dict[str, Any]:
        """Return the body of the answer of the API; without ``field`` if no field is invalid."""
        body = {
            'error_code': self.status,
            'error_message': self.message,
            'error_name': self.code,
        }
        return body if self.field is None else body | {'field': self.field}

    @property
    def kwargs(self) -> dict[str, str]:
        """Return the arguments, beside the message, with which RPC recreates the exception."""
        return {} if self.field is None else {'field': self.field}


class BadRequest(ClimateError, status=400, code='request.invalid'):
    """The request is malformed."""


class InvalidDate(BadRequest, code='lease.invalid_date'):
    """The date is malformed, or not in the allowed range."""


class InvalidDuration(BadRequest, code='lease.invalid_duration'):
    """The duration is malformed, or too short or too long for the calendar."""


class InvalidWebhook(BadRequest, code='lease.invalid_webhook'):
    """The webhook is malformed, or its address is not allowed."""


class UnknownResourceType(BadRequest, code='reservation.unknown_type'):
    """No enabled plugin reserves this type of resource."""


class ResourceNotFound(BadRequest, code='reservation.resource_not_found'):
    """The resource to reserve does not exist in this project."""


class UnknownHost(BadRequest, code='host.unknown'):
    """Nova has no such host, or several nodes of this name."""


class UnknownProperty(BadRequest, code='host.unknown_property'):
    """No host that the project may use has a property of this name."""


class UnknownSegmentProperty(UnknownProperty, code='network.unknown_property'):
    """No network segment that the project may use has a property of this name."""


class Unauthorized(ClimateError, status=401, code='unauthorized'):
    """The request needs a valid token in X-Auth-Token."""


class Forbidden(ClimateError, status=403, code='forbidden'):
    """The policy does not allow this."""


class LimitExceeded(Forbidden, code='limits.exceeded'):
    """The project would have more than its limits allow."""


class LeaseTooLong(Forbidden, code='lease.too_long'):
    """The lease is longer than allowed."""


class LeaseTooFarAhead(Forbidden, code='lease.too_far_ahead'):
    """The lease starts further in the future than allowed."""


class TooManyFeeds(Forbidden, code='feed.too_many'):
    """The user has the maximum number of feeds in the project."""


class LeaseNotPermitted(Forbidden, code='lease.not_permitted'):
    """The external service does not permit the lease."""


class NotFound(ClimateError, status=404, code='not_found'):
    """The resource does not exist."""


class LeaseNotFound(NotFound, code='lease.not_found'):
    """There is no such lease."""


class ReservationNotFound(NotFound, code='reservation.not_found'):
    """The lease has no such reservation."""


class HostNotFound(NotFound, code='host.not_found'):
    """No pool has such a host."""


class HostPropertyNotFound(NotFound, code='host.property_not_found'):
    """No host has such an extra property."""


class HostPoolNotFound(NotFound, code='host.pool_not_found'):
    """There is no such pool of hosts, or it is for other projects."""


class FloatingIpNotFound(NotFound, code='floatingip.not_found'):
    """No such floating IP is registered for leases."""


class FeedNotFound(NotFound, code='feed.not_found'):
    """There is no such feed, or it is not visible to the caller."""


class NetworkNotFound(NotFound, code='network.not_found'):
    """No such network segment is registered for leases, or it is for other projects."""


class NetworkPropertyNotFound(NotFound, code='network.property_not_found'):
    """No network segment has such an extra property."""


class Conflict(ClimateError, status=409, code='conflict'):
    """The request conflicts with the present state."""


class LeaseConflict(Conflict, code='lease.conflict'):
    """A different lease with this id exists."""


class IdempotencyConflict(Conflict, code='lease.idempotency_conflict'):
    """The Idempotency-Key was used for a different request, or its lease is deleted."""


class LeaseAppeared(Conflict, code='lease.appeared'):
    """A lease with this id was created concurrently. Send the request again."""


class ResourceReserved(Conflict, code='reservation.resource_reserved'):
    """The resource is already reserved by another lease."""


class NameTaken(Conflict, code='reservation.name_taken'):
    """Another resource of the project has the name."""


class InvalidState(Conflict, code='lease.invalid_state'):
    """The lease is in a state that does not allow this."""


class GenerationConflict(Conflict, code='lease.generation_conflict'):
    """The lease was changed concurrently. Read it again."""


class HostPoolChanged(Conflict, code='host.pool_changed'):
    """The pool of hosts was changed concurrently. Read it again."""


class HostPoolInUse(Conflict, code='host.pool_in_use'):
    """The pool has hosts."""


class HostExists(Conflict, code='host.exists'):
    """The host is already in a pool."""


class HostInUse(Conflict, code='host.in_use'):
    """The host has servers, or is allocated to reservations."""


class HostChanging(Conflict, code='host.changing'):
    """The host is being added to a pool, or removed from it."""


class FloatingIpExists(Conflict, code='floatingip.exists'):
    """The floating IP is already registered for leases."""


class FloatingIpInUse(Conflict, code='floatingip.in_use'):
    """The address has a port in Neutron, or is allocated to reservations."""


class NetworkExists(Conflict, code='network.exists'):
    """The network segment is already registered for leases."""


class NetworkChanged(Conflict, code='network.changed'):
    """The network segment was changed concurrently. Read it again."""


class NetworkInUse(Conflict, code='network.in_use'):
    """A network has the segment in Neutron, or it is allocated to reservations."""


class NotEnough(Conflict, code='calendar.not_enough'):
    """Capacity is insufficient for that time."""

    def __init__(
        self,
        message: str = '',
        field: str | None = None,
        available_from: str | None = None,
        parts: Collection[str] = (),
    ) -> None:
        """Add when there is sufficient capacity for the same duration, in the format of the API.

        :param parts: the ids of the reservations that reject a later end of their lease; RPC does
            not carry them
        """
        super().__init__(message, field)
        self.available_from = available_from
        self.parts = parts

    @property
    def body(self) -> dict[str, Any]:
        return super().body | self._later

    @property
    def kwargs(self) -> dict[str, str]:
        return super().kwargs | self._later

    @property
    def _later(self) -> dict[str, str]:
        return {} if self.available_from is None else {'available_from': self.available_from}


class ServiceUnavailable(ClimateError, status=503, code='service_unavailable'):
    """A required service does not answer. Try again."""


class ServiceBusy(ServiceUnavailable, code='service_busy'):
    """Too many requests wait for Nova, Cinder or Heat. Try again after "Retry-After" seconds."""

    retry_after = 1


class FeedBusy(ServiceBusy, status=429, code='feed.busy'):
    """Another request renders the same feed now. Try again after "Retry-After" seconds."""


class PluginFailure(Exception):
    """A plugin failed to do its work on a resource.

    :param reason: a sentence for users and operators
    :param progress: the progress that is stored with the reservation, as of
        :class:`climate_core.plugins.base.PollAgain`
    """

    def __init__(self, reason: str = '', progress: Mapping[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.progress = progress


class Transient(PluginFailure):
    """Another attempt may succeed: the engine retries with back-off.

    :ivar retry_after: seconds to wait for a service that answered with ``Retry-After``
    """

    retry_after = 0.0


class Permanent(PluginFailure):
    """Another attempt will not succeed: the engine fails the reservation with this reason."""


class NoCapacity(Permanent):
    """Capacity is insufficient now: a lease that may be queued, or preempts others, is queued."""
