# SPDX-License-Identifier: Apache-2.0
"""Decide in one place what an answer of another service means for the engine.

=========================================  ==========================================
no connection, timeout, no endpoint        :class:`~climate_core.exceptions.Transient`
408, 413, 425, 429, 5xx                    :class:`~climate_core.exceptions.Transient`
500                                        :class:`Broken`, a Transient
401                                        :class:`Unaccepted`, a Transient
409                                        :class:`Busy`, a Transient
404                                        :class:`Gone`
403                                        :class:`Refused`, a Permanent
400                                        :class:`Rejected`, a Permanent
the rest of 4xx                            :class:`~climate_core.exceptions.Permanent`
the owner's trust is refused               :class:`TrustRefused`, a Permanent
=========================================  ==========================================

The messages of these exceptions go to users: they have no host name, URL or token of the cloud.
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
    """The thing that was asked for is not there (404)."""


class Busy(exceptions.Transient):
    """The thing is in a state that does not allow this now (409)."""


class Broken(exceptions.Transient):
    """The service failed with an Internal Server Error (500)."""


class Unaccepted(exceptions.Transient):
    """The token is not accepted (401). If it is ours, an operator can repair it."""


class Refused(exceptions.Permanent):
    """The service refuses the request for lack of rights (403)."""


class Rejected(exceptions.Permanent):
    """The service rejects the request as it is (400)."""


class TrustRefused(exceptions.Permanent):
    """Keystone does not accept the trust of the owner any more."""


#: All that a plugin raises for a reason that can be told; anything else is a mistake of ours.
EXPECTED: tuple[type[Exception], ...] = (
    exceptions.Transient,
    exceptions.Permanent,
    exceptions.ClimateError,
    Gone,
)


#: Characters of an answer that are logged, or shown, at most: services repeat what users sent.
_LOGGED = 2000

#: HTTP status -> exception; the rest of 5xx is Transient, the rest of 4xx Permanent.
_KINDS: Mapping[int, type[Exception]] = {
    400: Rejected,
    401: Unaccepted,
    403: Refused,
    404: Gone,
    409: Busy,
    500: Broken,
    **dict.fromkeys((408, 413, 425, 429), exceptions.Transient),
}


#: What a user can read of a failure on the way to a service; the first match counts.
_FAILURES: tuple[tuple[type[Exception], str], ...] = (
    (ksa.EndpointNotFound, 'it has no usable endpoint'),
    (ksa.ConnectTimeout, 'it does not answer in time'),
    (ksa.SSLError, 'the TLS connection failed'),
    (ksa.ConnectionError, 'the connection failed'),
    (ksa.Unauthorized, 'Keystone rejects the credentials'),
    (ksa.HttpError, 'Keystone or the service answered with an error'),
    (ksa.AuthorizationFailure, 'Keystone gives no token'),
)
#: URLs, what requests writes of a connection, and tokens of Keystone (Fernet, JWS).
_PRIVATE = re.compile(
    r'\b[a-z][a-z0-9+.-]{0,30}://[^\s\'"<>)\]}]+|HTTPS?Connection(?:Pool)?\(.*|\b(?:gAAAA|eyJ)[\w.-]{20,}',
    re.IGNORECASE | re.DOTALL,
)


def redact(text: str) -> str:
    """Return the beginning of a text of another service without URLs, connections and tokens."""
    return _PRIVATE.sub('(left out)', text[:_LOGGED])


def error_message(response: requests.Response) -> str:
    """Return the sentence in an OpenStack error body, whatever it has; else the HTTP reason."""
    try:
        body = response.json()
    except ValueError:
        body = None
    return _find_message(body) or str(response.reason)


def _public_message(response: requests.Response, service: str) -> str:
    """Return what a user can read of an error, and log the rest.

    The sentence of a 4xx answer is for the sender of the request. A 5xx answer, and one that is
    not JSON, has whatever failed inside of the service or of a proxy.
    """
    status = response.status_code
    said = redact(error_message(response)) if status < 500 else str(response.reason)
    whole = response.text.strip()
    if status >= 500 or said not in whole:
        LOG.warning('%s answered %d: %s', service, status, whole[:_LOGGED])
    return said


def _find_message(body: Any) -> str:
    if not isinstance(body, dict):
        return ''
    if isinstance(body.get('message'), str):
        return body['message']
    return next((text for text in map(_find_message, body.values()) if text), '')


def check_response(
    response: requests.Response, service: str, kind: type[Exception] | None = None
) -> requests.Response:
    """Return the response if it is below 400; else raise what the table above says.

    :param service: the name of the service that answered, for people
    :param kind: what this service means by the status, if it is not that
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
    """Return what an answer below 400 has under a name; without one, all of it.

    :raises climate_core.exceptions.Transient: it is not there: a proxy answers for the service
    """
    try:
        found = check_response(response, service).json()
    except ValueError:
        found = None
    missing = None if isinstance(found, dict) else 'an object'
    if missing is None and name is not None and name not in found:
        missing = repr(name)
    if missing:
        whole = response.text.strip()[:_LOGGED]
        LOG.warning('%s answered without %s: %s', service, missing, whole)
        raise exceptions.Transient(f'{service} answered without {missing}.')
    return found if name is None else found[name]


@contextlib.contextmanager
def translated(service: str) -> Iterator[None]:
    """Turn what keystoneauth raises into :class:`Transient`.

    It comes from the way to the service (connection, token, catalogue), which an operator can
    repair; the answer of the service is judged by :func:`check`.
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
    """Turn the engine's exceptions into those that the API answers with.

    :param field: the field of the request that names the thing
    :raises climate_core.exceptions.ResourceNotFound: it is gone
    :raises climate_core.exceptions.Forbidden: the service refuses it to its user
    :raises climate_core.exceptions.Unauthorized: the token is not accepted
    :raises climate_core.exceptions.ServiceUnavailable: the same request may succeed later
    :raises climate_core.exceptions.BadRequest: it will not
    """
    try:
        yield
    except Gone as exc:
        raise exceptions.ResourceNotFound(str(exc), field=field) from exc
    except Refused as exc:
        raise exceptions.Forbidden(str(exc), field=field) from exc
    except Unaccepted as exc:
        raise exceptions.Unauthorized(str(exc)) from exc
    except exceptions.Transient as exc:
        raise exceptions.ServiceUnavailable(str(exc)) from exc
    except exceptions.Permanent as exc:
        raise exceptions.BadRequest(str(exc), field=field) from exc


def read_retry_after(headers: Mapping[str, str] | email.message.Message) -> float:
    """Return the seconds in the header ``Retry-After`` of an answer; 0 without a valid one.

    A date counts from the ``Date`` of the answer (RFC 9110, 10.2.3 and 6.6.1).

    :param headers: whatever the case of their names
    """
    after = (headers.get('Retry-After') or '').strip()
    if re.fullmatch('[0-9]{1,9}', after):
        return float(after)
    try:
        date, now = (email.utils.parsedate_to_datetime(each) for each in (after, headers['Date']))
        return max(0.0, (date - now).total_seconds())
    except (KeyError, TypeError, ValueError, OverflowError):
        # OverflowError: the year or the offset has too many digits.
        return 0.0
