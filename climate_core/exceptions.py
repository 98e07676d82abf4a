# SPDX-License-Identifier: Apache-2.0
"""Errors with their HTTP status, a stable machine code and the invalid field.

All errors that a user can cause are a :class:`ClimateError`. The API turns it into a response in
one place (``climate_core.api``), and RPC carries it from the manager unchanged, so these classes
must be constructible from ``(message, **kwargs)``, of which all but the message may be missing.
Their docstrings are the default messages, and the causes in the reference of errors.

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
    #: What a user or an operator does about it, for the reference of errors.
    cure = ''

    def __init_subclass__(
        cls, status: int | None = None, code: str | None = None, cure: str = ''
    ) -> None:
        cls.status = status or cls.status
        cls.code = code or cls.code
        cls.cure = cure if code else cls.cure

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


class BadRequest(
    ClimateError,
    status=400,
    code='request.invalid',
    cure='Correct the field that ``field`` names; the message has the accepted values.',
):
    """The request is malformed."""


class InvalidDate(
    BadRequest,
    code='lease.invalid_date',
    cure='Use "now", a relative time ("+1h") or ISO 8601, and an end after the start.',
):
    """The date is malformed, or not in the allowed range."""


class InvalidDuration(
    BadRequest,
    code='lease.invalid_duration',
    cure='Use a duration as "90m", "2h" or "1d" in the range that the message names.',
):
    """The duration is malformed, or too short or too long for the calendar."""


class InvalidWebhook(
    BadRequest,
    code='lease.invalid_webhook',
    cure='Correct the webhook; an operator permits addresses in ``[webhooks]``.',
):
    """The webhook is malformed, or its address is not allowed."""


class UnknownResourceType(
    BadRequest,
    code='reservation.unknown_type',
    cure='Use another type, or enable its plugin in ``[manager] plugins``.',
):
    """No enabled plugin reserves this type of resource."""


class ResourceNotFound(
    BadRequest,
    code='reservation.resource_not_found',
    cure='Check the id, and the project of the token.',
):
    """The resource to reserve does not exist in this project."""


class UnknownHost(
    BadRequest,
    code='host.unknown',
    cure='Use a hostname that ``openstack hypervisor list`` shows.',
):
    """Nova has no such host, or several nodes of this name."""


class UnknownProperty(
    BadRequest,
    code='host.unknown_property',
    cure='Use a property that ``openstack lease host property list`` shows.',
):
    """No host that the project may use has a property of this name."""


class UnknownSegmentProperty(
    UnknownProperty,
    code='network.unknown_property',
    cure='Use a property that ``openstack lease segment property list`` shows.',
):
    """No network segment that the project may use has a property of this name."""


class Unauthorized(
    ClimateError, status=401, code='unauthorized', cure='Request a new token from Keystone.'
):
    """The request needs a valid token in X-Auth-Token."""


class Forbidden(
    ClimateError,
    status=403,
    code='forbidden',
    cure='Use a role that the policy allows, or change policy.yaml.',
):
    """The policy does not allow this."""


class LimitExceeded(
    Forbidden,
    code='limits.exceeded',
    cure='End leases, request less, or ask the operator to raise the limit of the project.',
):
    """The project would have more than its limits allow."""


class LeaseTooLong(
    Forbidden,
    code='lease.too_long',
    cure=(
        'Request a shorter lease. The operator sets the maximum by max_lease_seconds in [limits] '
        'or Keystone, and exempts projects in [limits] exempt_projects.'
    ),
):
    """The lease is longer than allowed."""


class LeaseTooFarAhead(
    Forbidden,
    code='lease.too_far_ahead',
    cure=(
        'Request an earlier start. The operator sets the maximum by max_ahead_seconds in [limits] '
        'or Keystone, and exempts projects in [limits] exempt_projects.'
    ),
):
    """The lease starts further in the future than allowed."""


class TooManyFeeds(Forbidden, code='feed.too_many', cure='Delete a feed that is not used.'):
    """The user has the maximum number of feeds in the project."""


class LeaseNotPermitted(
    Forbidden,
    code='lease.not_permitted',
    cure='The message has the reason of the external service; ask its operator.',
):
    """The external service does not permit the lease."""


class NotFound(
    ClimateError, status=404, code='not_found', cure='Check the id, and the project of the token.'
):
    """The resource does not exist."""


class LeaseNotFound(
    NotFound,
    code='lease.not_found',
    cure='Check the id, and the project of the token; a purged lease is gone.',
):
    """There is no such lease."""


class ReservationNotFound(
    NotFound, code='reservation.not_found', cure='Use an id that ``openstack lease show`` lists.'
):
    """The lease has no such reservation."""


class HostNotFound(
    NotFound, code='host.not_found', cure='Use a host that ``openstack lease host list`` shows.'
):
    """No pool has such a host."""


class HostPropertyNotFound(
    NotFound,
    code='host.property_not_found',
    cure='Use a property that ``openstack lease host property list`` shows.',
):
    """No host has such an extra property."""


class HostPoolNotFound(
    NotFound,
    code='host.pool_not_found',
    cure='Use a pool that ``openstack lease host pool list`` shows.',
):
    """There is no such pool of hosts, or it is for other projects."""


class FloatingIpNotFound(
    NotFound,
    code='floatingip.not_found',
    cure='Use an address that ``openstack lease address list`` shows.',
):
    """No such floating IP is registered for leases."""


class FeedNotFound(
    NotFound, code='feed.not_found', cure='Use a feed that ``openstack lease feed list`` shows.'
):
    """There is no such feed, or it is not visible to the caller."""


class NetworkNotFound(
    NotFound,
    code='network.not_found',
    cure='Use a segment that ``openstack lease segment list`` shows.',
):
    """No such network segment is registered for leases, or it is for other projects."""


class NetworkPropertyNotFound(
    NotFound,
    code='network.property_not_found',
    cure='Use a property that ``openstack lease segment property list`` shows.',
):
    """No network segment has such an extra property."""


class Conflict(
    ClimateError,
    status=409,
    code='conflict',
    cure='Read the resource again, and repeat the request if it still applies.',
):
    """The request conflicts with the present state."""


class LeaseConflict(Conflict, code='lease.conflict', cure='Omit ``id``, or choose another.'):
    """A different lease with this id exists."""


class IdempotencyConflict(
    Conflict, code='lease.idempotency_conflict', cure='Use a new key for a new request.'
):
    """The Idempotency-Key was used for a different request, or its lease is deleted."""


class LeaseAppeared(
    Conflict, code='lease.appeared', cure='Repeat the request: it returns the lease.'
):
    """A lease with this id was created concurrently. Send the request again."""


class ResourceReserved(
    Conflict,
    code='reservation.resource_reserved',
    cure='End the other lease, or remove the resource from it.',
):
    """The resource is already reserved by another lease."""


class NameTaken(
    Conflict,
    code='reservation.name_taken',
    cure='Choose another name, or delete the resource that has it.',
):
    """Another resource of the project has the name."""


class InvalidState(
    Conflict,
    code='lease.invalid_state',
    cure='Show the lease; the message names what can still be changed.',
):
    """The lease is in a state that does not allow this."""


class GenerationConflict(
    Conflict,
    code='lease.generation_conflict',
    cure='Read the lease, and send the change with its generation.',
):
    """The lease was changed concurrently. Read it again."""


class HostPoolChanged(
    Conflict,
    code='host.pool_changed',
    cure='Read the pool, and send the change with its generation.',
):
    """The pool of hosts was changed concurrently. Read it again."""


class HostPoolInUse(
    Conflict, code='host.pool_in_use', cure='Move the hosts to another pool, or remove them.'
):
    """The pool has hosts."""


class HostExists(Conflict, code='host.exists', cure='Change the host instead of adding it.'):
    """The host is already in a pool."""


class HostInUse(
    Conflict,
    code='host.in_use',
    cure='Migrate or delete the servers; end the leases, or wait for their end.',
):
    """The host has servers, or is allocated to reservations."""


class HostChanging(
    Conflict, code='host.changing', cure='Wait until it is finished, or do what the message names.'
):
    """The host is being added to a pool, or removed from it."""


class FloatingIpExists(
    Conflict, code='floatingip.exists', cure='None: the address can be reserved.'
):
    """The floating IP is already registered for leases."""


class FloatingIpInUse(
    Conflict,
    code='floatingip.in_use',
    cure='Release the address in Neutron; end the leases, or wait for their end.',
):
    """The address has a port in Neutron, or is allocated to reservations."""


class NetworkExists(
    Conflict, code='network.exists', cure='Change the segment instead of adding it.'
):
    """The network segment is already registered for leases."""


class NetworkChanged(
    Conflict,
    code='network.changed',
    cure='Read the segment, and send the change with its generation.',
):
    """The network segment was changed concurrently. Read it again."""


class NetworkInUse(
    Conflict,
    code='network.in_use',
    cure='Delete the network in Neutron; end the leases, or wait for their end.',
):
    """A network has the segment in Neutron, or it is allocated to reservations."""


class NotEnough(
    Conflict,
    code='calendar.not_enough',
    cure='Start at ``available_from``, request less, or let the lease be queued.',
):
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


class ServiceUnavailable(
    ClimateError,
    status=503,
    code='service_unavailable',
    cure='Retry. The message names the service; an operator checks it.',
):
    """A required service does not answer. Try again."""


class ServiceBusy(
    ServiceUnavailable,
    code='service_busy',
    cure='Retry after that time. If it persists, an operator checks these services.',
):
    """Too many requests wait for Nova, Cinder or Heat. Try again after "Retry-After" seconds."""

    retry_after = 1


class FeedBusy(ServiceBusy, status=429, code='feed.busy', cure='Retry after that time.'):
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
