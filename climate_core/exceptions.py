# SPDX-License-Identifier: Apache-2.0
"""Errors, each with its HTTP status, a stable machine code and the field to blame.

Everything that a user can cause is a :class:`ClimateError`. The API turns it into an answer in
one place (``climate_core.api``), and RPC carries it from the manager unchanged, so these classes
must be constructible from ``(message, field=...)`` alone.

:class:`Transient` and :class:`Permanent` never reach the API: plugins raise them to tell the
engine whether trying again makes sense.
"""

from collections.abc import Mapping
from typing import Any


class ClimateError(Exception):
    """Something was wrong with a request.

    :param message: a sentence for the user: what is wrong and what would be right
    :param field: the name of the request's field that is to blame, if there is one
    """

    status = 500
    code = 'internal_error'

    def __init__(self, message: str = '', field: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or '').strip())
        self.field = field

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else ''

    @property
    def body(self) -> dict[str, Any]:
        """Return what the API answers; ``field`` is there only if one is to blame."""
        said = {
            'error_code': self.status,
            'error_message': self.message,
            'error_name': self.code,
        }
        return said if self.field is None else said | {'field': self.field}

    @property
    def kwargs(self) -> dict[str, str]:
        """Return what oslo.messaging carries beside the message, to make the exception anew."""
        return {} if self.field is None else {'field': self.field}


class BadRequest(ClimateError):
    """The request is malformed."""

    status = 400
    code = 'request.invalid'


class InvalidDate(BadRequest):
    """The date is malformed, or lies where it may not."""

    code = 'lease.invalid_date'


class InvalidDuration(BadRequest):
    """The duration is malformed, or too short or too long for the calendar."""

    code = 'lease.invalid_duration'


class InvalidWebhook(BadRequest):
    """The webhook is malformed, or its address is not allowed."""

    code = 'lease.invalid_webhook'


class UnknownResourceType(BadRequest):
    """No enabled plugin reserves this type of resource."""

    code = 'reservation.unknown_type'


class ResourceNotFound(BadRequest):
    """The resource to reserve does not exist in this project."""

    code = 'reservation.resource_not_found'


class Unauthorized(ClimateError):
    """The request requires authentication."""

    status = 401
    code = 'unauthorized'


class Forbidden(ClimateError):
    """The policy does not allow this."""

    status = 403
    code = 'forbidden'


class LimitExceeded(Forbidden):
    """The project would have more than its limits allow."""

    code = 'limits.exceeded'


class LeaseTooLong(Forbidden):
    """The lease is longer than leases may be."""

    code = 'lease.too_long'


class LeaseTooFarAhead(Forbidden):
    """The lease starts further in the future than leases may."""

    code = 'lease.too_far_ahead'


class LeaseNotPermitted(Forbidden):
    """The service that is asked about leases does not permit it."""

    code = 'lease.not_permitted'


class NotFound(ClimateError):
    """There is no such thing."""

    status = 404
    code = 'not_found'


class LeaseNotFound(NotFound):
    """There is no such lease."""

    code = 'lease.not_found'


class ReservationNotFound(NotFound):
    """The lease has no such reservation."""

    code = 'reservation.not_found'


class Conflict(ClimateError):
    """The request does not fit the present state."""

    status = 409
    code = 'conflict'


class LeaseConflict(Conflict):
    """A different lease with this id exists."""

    code = 'lease.conflict'


class IdempotencyConflict(Conflict):
    """The Idempotency-Key was used for a different request, or its lease is deleted."""

    code = 'lease.idempotency_conflict'


class LeaseAppeared(Conflict):
    """A lease with this id was made at this moment. Send the request again."""

    code = 'lease.appeared'


class ResourceReserved(Conflict):
    """The resource is already reserved by another lease."""

    code = 'reservation.resource_reserved'


class NameTaken(Conflict):
    """The name is taken by something else of the project."""

    code = 'reservation.name_taken'


class InvalidState(Conflict):
    """The lease is in a state that does not allow this."""

    code = 'lease.invalid_state'


class GenerationConflict(Conflict):
    """The lease was changed meanwhile. Read it again."""

    code = 'lease.generation_conflict'


class ServiceUnavailable(ClimateError):
    """A service that is needed does not answer. Try again."""

    status = 503
    code = 'service_unavailable'


class ServiceBusy(ServiceUnavailable):
    """Too many requests wait for Nova, Cinder or Heat. Try again after "Retry-After" seconds."""

    code = 'service_busy'
    retry_after = 1


class PluginFailure(Exception):
    """A resource did not do what its plugin was asked for.

    :param reason: a sentence that the user and the operator can read
    :param progress: what is kept with the reservation, as of
        :class:`climate_core.plugins.base.Wait`
    """

    def __init__(self, reason: str = '', progress: Mapping[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.progress = progress


class Transient(PluginFailure):
    """Trying again later may help: the engine retries with back-off."""


class Permanent(PluginFailure):
    """Trying again will not help: the engine fails the reservation with this reason."""
