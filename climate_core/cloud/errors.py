# SPDX-License-Identifier: Apache-2.0
"""Translate the answers of other services into exceptions of the engine.

=========================================  ==========================================
no connection, timeout, no endpoint        :class:`~climate_core.exceptions.Transient`
408, 413, 425, 429, 5xx                    :class:`~climate_core.exceptions.Transient`
500                                        :class:`Broken`, a Transient
401                                        :class:`Unauthorized`, a Transient
409                                        :class:`Busy`, a Transient
404                                        :class:`Gone`
403                                        :class:`Forbidden`, a Permanent
400                                        :class:`Rejected`, a Permanent
the rest of 4xx                            :class:`~climate_core.exceptions.Permanent`
the owner's trust is rejected              :class:`TrustRejected`, a Permanent
=========================================  ==========================================

The messages of these exceptions are for users, without host names, URLs and tokens of the cloud.
The log has the whole text, under the id of the request.
"""

import contextlib
import email.message
import email.utils
import re
from collections.abc import Iterator, Mapping
from typing import Any

import requests
from keystoneauth1 import exceptions as ksa
from oslo_log import log

from climate_core import exceptions

LOG = log.getLogger(__name__)


class Gone(Exception):
    """The resource does not exist (404)."""


class Busy(exceptions.Transient):
    """The state of the resource does not allow this now (409)."""


class Broken(exceptions.Transient):
    """The service failed with an Internal Server Error (500)."""


class Unauthorized(exceptions.Transient):
    """The token is rejected (401). An operator can fix that for the token of the service user."""


class Forbidden(exceptions.Permanent):
    """The service rejects the request for lack of rights (403)."""


class Rejected(exceptions.Permanent):
    """The service rejects the request as it is (400)."""


class TrustRejected(exceptions.Permanent):
    """Keystone no longer accepts the trust of the owner."""


#: The errors of a plugin whose message users can read; any other is an error in Climate.
EXPECTED: tuple[type[Exception], ...] = (
    exceptions.Transient,
    exceptions.Permanent,
    exceptions.ClimateError,
    Gone,
)


#: Maximum characters of an answer that are logged or shown: services repeat user input.
_LOGGED = 2000

#: HTTP status -> exception; the rest of 5xx is Transient, the rest of 4xx Permanent.
_KINDS: Mapping[int, type[Exception]] = {
    400: Rejected,
    401: Unauthorized,
    403: Forbidden,
    404: Gone,
    409: Busy,
    500: Broken,
    **dict.fromkeys((408, 413, 425, 429), exceptions.Transient),
}


#: The messages to users for failures to reach a service; the first match counts.
_FAILURES: tuple[tuple[type[Exception], str], ...] = (
    (ksa.EndpointNotFound, 'it has no usable endpoint'),
    (ksa.ConnectTimeout, 'it does not answer in time'),
    (ksa.SSLError, 'the TLS connection failed'),
    (ksa.ConnectionError, 'the connection failed'),
    (ksa.Unauthorized, 'Keystone rejects the credentials'),
    (ksa.HttpError, 'Keystone or the service answered with an error'),
    (ksa.AuthorizationFailure, 'Keystone issued no token'),
)
#: URLs, the connections in messages of requests, and tokens of Keystone (Fernet, JWS).
_PRIVATE = re.compile(
    r'\b[a-z][a-z0-9+.-]{0,30}://[^\s\'"<>)\]}]+|HTTPS?Connection(?:Pool)?\(.*|\b(?:gAAAA|eyJ)[\w.-]{20,}',
    re.IGNORECASE | re.DOTALL,
)


def redact(text: str) -> str:
    """Return the start of a text of another service without URLs, connections and tokens."""
    return _PRIVATE.sub('(left out)', text[:_LOGGED])


def error_message(response: requests.Response) -> str:
    """Return the message in an OpenStack error body of any form; else the HTTP reason."""
    try:
        body = response.json()
    except ValueError:
        body = None
    return _find_message(body) or str(response.reason)


def _public_message(response: requests.Response, service: str) -> str:
    """Return the message of an error for users, and log the rest.

    The message of a 4xx answer is for the sender of the request. A 5xx answer, and one that is
    not JSON, may have internals of the service or of a proxy.
    """
    status = response.status_code
    public = redact(error_message(response)) if status < 500 else str(response.reason)
    whole = response.text.strip()
    if status >= 500 or public not in whole:
        LOG.warning('%s answered %d: %s', service, status, whole[:_LOGGED])
    return public


def _find_message(body: Any) -> str:
    if not isinstance(body, dict):
        return ''
    if isinstance(body.get('message'), str):
        return body['message']
    return next((text for text in map(_find_message, body.values()) if text), '')


def check_response(
    response: requests.Response, service: str, kind: type[Exception] | None = None
) -> requests.Response:
    """Return the response if its status is below 400; else raise the exception of the table above.

    :param service: the name of the service, for messages
    :param kind: the exception instead of that of the table
    """
    status = response.status_code
    if status < 400:
        return response
    usual = exceptions.Transient if status >= 500 else exceptions.Permanent
    kind = kind or _KINDS.get(status, usual)
    failure = kind(f'{service} answered {status}: {_public_message(response, service)}')
    if isinstance(failure, exceptions.Transient):
        failure.retry_after = read_retry_after(response.headers)
    raise failure


def read_response(response: requests.Response, service: str, name: str | None = None) -> Any:
    """Return the value of a name in the JSON of an answer below 400; without a name, all of it.

    :raises climate_core.exceptions.Transient: it is missing: a proxy answers for the service
    """
    try:
        body = check_response(response, service).json()
    except ValueError:
        body = None
    missing = None if isinstance(body, dict) else 'an object'
    if missing is None and name is not None and name not in body:
        missing = repr(name)
    if missing:
        whole = response.text.strip()[:_LOGGED]
        LOG.warning('%s answered without %s: %s', service, missing, whole)
        raise exceptions.Transient(f'{service} answered without {missing}.')
    return body if name is None else body[name]


@contextlib.contextmanager
def translated(service: str) -> Iterator[None]:
    """Turn the exceptions of keystoneauth into :class:`~climate_core.exceptions.Transient`.

    They are failures to reach the service (connection, token, catalog), which an operator can fix.
    :func:`check_response` handles the answers of the service.
    """
    try:
        yield
    except ksa.ClientException as exc:
        LOG.warning('%s cannot be reached: %s', service, exc)
        what = next((text for kind, text in _FAILURES if isinstance(exc, kind)), None)
        reason = f': {what}' if what else ''
        raise exceptions.Transient(f'{service} cannot be reached{reason}.') from exc


@contextlib.contextmanager
def for_user(field: str | None = None) -> Iterator[None]:
    """Turn the exceptions of the engine into those of the API.

    :param field: the field of the request that names the resource
    :raises climate_core.exceptions.ResourceNotFound: the resource does not exist
    :raises climate_core.exceptions.Forbidden: the service rejects it for lack of rights
    :raises climate_core.exceptions.Unauthorized: the token is rejected
    :raises climate_core.exceptions.ServiceUnavailable: the same request may succeed later
    :raises climate_core.exceptions.BadRequest: the same request will not succeed
    """
    try:
        yield
    except Gone as exc:
        raise exceptions.ResourceNotFound(str(exc), field=field) from exc
    except Forbidden as exc:
        raise exceptions.Forbidden(str(exc), field=field) from exc
    except Unauthorized as exc:
        raise exceptions.Unauthorized(str(exc)) from exc
    except exceptions.Transient as exc:
        raise exceptions.ServiceUnavailable(str(exc)) from exc
    except exceptions.Permanent as exc:
        raise exceptions.BadRequest(str(exc), field=field) from exc


@contextlib.contextmanager
def require_services() -> Iterator[None]:
    """Turn the exceptions of the engine into ServiceUnavailable, and log them.

    It is for requests with the rights of the service, whose failures no user can fix.

    :raises climate_core.exceptions.ServiceUnavailable: a service does not answer, or rejects it
    """
    try:
        yield
    except exceptions.ClimateError:
        raise
    except EXPECTED as exc:
        LOG.warning('A service that is needed failed: %s', exc)
        raise exceptions.ServiceUnavailable(str(exc)) from exc


def read_retry_after(headers: Mapping[str, str] | email.message.Message) -> float:
    """Return the seconds in the header ``Retry-After`` of an answer; 0 without a valid one.

    A date counts from the ``Date`` of the answer (RFC 9110, 10.2.3 and 6.6.1).

    :param headers: a mapping that ignores the case of names
    """
    after = (headers.get('Retry-After') or '').strip()
    if re.fullmatch('[0-9]{1,9}', after):
        return float(after)
    try:
        date, now = (email.utils.parsedate_to_datetime(text) for text in (after, headers['Date']))
        return max(0.0, (date - now).total_seconds())
    except (KeyError, TypeError, ValueError, OverflowError):
        # OverflowError: the year or the offset has too many digits.
        return 0.0
