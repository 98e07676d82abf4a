# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the client.

An error response of the lease service becomes an :class:`ApiError`, with the
service's stable ``code`` and the ``field`` it blames. All of them are also keystoneauth1
exceptions of the same name, so ``except keystoneauth1.exceptions.ClientException`` catches
these and, besides, a missing endpoint, a refused connection or a failed authentication.
"""

from typing import Any

import requests
from keystoneauth1.exceptions import base as ksa_base
from keystoneauth1.exceptions import http


def blame(field: str | None, message: str) -> str:
    """Return a sentence that names once, at its beginning, the field that is to blame."""
    if not field or message.startswith((f'{field}: ', f'{field} ')):
        return message
    name = field.rpartition('.')[2]
    if message.startswith((f'{name}: ', f'{name} ')):
        return f'{field}{message.removeprefix(name)}'
    return f'{field}: {message}'


class ApiError(http.HttpError):
    """The lease service refused the request.

    ``http_status`` is the HTTP status, ``message`` a sentence for the user, ``code`` the
    service's stable name of the error (like ``lease.not_found``) or None, ``field`` the
    field of the request that is to blame or None, ``request_id`` the id of the request in the
    service's log or None.
    """

    code: str | None = None
    field: str | None = None

    def __str__(self) -> str:
        text = blame(self.field, super().__str__())
        return f'{text} (Retry-After: {self.retry_after} seconds)' if self.retry_after else text


class BadRequest(ApiError, http.BadRequest):
    """The request is malformed, or a date lies where it may not (400)."""


class Unauthorized(ApiError, http.Unauthorized):
    """The token was not accepted (401)."""


class Forbidden(ApiError, http.Forbidden):
    """The policy, a limit or the operator's own check does not allow this (403)."""


class NotFound(ApiError, http.NotFound):
    """There is no such lease in this project (404)."""


class Conflict(ApiError, http.Conflict):
    """The resource is reserved already, or the lease's state does not allow this (409)."""


class ServiceUnavailable(ApiError, http.ServiceUnavailable):
    """The service cannot do this now; trying again may help (503)."""


class ServerError(ApiError, http.HttpServerError):
    """The service failed (any other 5xx)."""


class UnexpectedAnswer(ksa_base.ClientException):
    """The response is not one of the lease service: look at the endpoint's URL."""


class LeaseNameNotFound(ksa_base.ClientException):
    """No lease has this name or id."""


class HostNameNotFound(ksa_base.ClientException):
    """No pool has a host of this name or id."""


class FloatingIpNotFound(ksa_base.ClientException):
    """No floating IP with this address is registered for leases."""


class SegmentNotFound(ksa_base.ClientException):
    """No such network segment is registered for leases."""


class AmbiguousName(ksa_base.ClientException):
    """Several leases have this name: give an id.

    ``ids`` are the ids of the leases that have it.
    """

    def __init__(self, message: str, ids: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.ids = ids


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    503: ServiceUnavailable,
}


def from_http(error: http.HttpError) -> ApiError:
    """Make an exception of this module of keystoneauth's.

    :param error: what keystoneauth raised, with the ``response``
    :returns: the exception to raise; its text is the service's own message
    """
    status = error.http_status
    body = _body(error.response)
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
    message = _message(body) or type(error).message
    result = kind(
        message=message,
        details=error.details,
        response=error.response,
        request_id=error.request_id,
        url=error.url,
        method=error.method,
        http_status=status,
        retry_after=error.retry_after,
    )
    result.message = message  # keystoneauth puts the status and the request id in here too
    result.code = _text(body.get('error_name'))
    result.field = _text(body.get('field'))
    return result


def _message(body: dict[str, Any]) -> str | None:
    """Return the message of the lease service, or of Keystone, which may answer first."""
    inner = body.get('error')
    return _text(body.get('error_message')) or (
        _text(inner.get('message')) if isinstance(inner, dict) else None
    )


def _body(response: requests.Response | None) -> dict[str, Any]:
    if response is None:
        return {}
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
