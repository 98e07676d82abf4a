# SPDX-License-Identifier: Apache-2.0
"""The errors of the API, and the middleware that converts every error to JSON."""

import http
from typing import Any

import webob
import webob.dec
import webob.exc
from oslo_log import log
from oslo_serialization import jsonutils

from climate_core import exceptions
from climate_core.db import feeds
from climate_core.db.engine import error_for_user

LOG = log.getLogger(__name__)


class InternalError(
    exceptions.ClimateError,
    code='internal_error',
    cure='An operator searches the logs of climate-api and climate-manager for the id of the '
    'request, and reports the error.',
):
    """Unexpected error in the lease service. Its log has the details."""


class PathNotFound(
    exceptions.NotFound, code='path.not_found', cure='Use a path of :doc:`/reference/api`.'
):
    """The path does not exist."""


class MethodNotAllowed(
    exceptions.ClimateError,
    status=405,
    code='method.not_allowed',
    cure='Use a method that the header Allow lists.',
):
    """The path does not support this method."""

    def __init__(self, message: str = '', field: str | None = None, allow: str = '') -> None:
        super().__init__(message, field)
        self.allow = allow


class NotAcceptable(
    exceptions.ClimateError,
    status=406,
    code='version.not_acceptable',
    cure='Omit the header, or request the version that the message names.',
):
    """The requested API version is not supported."""


class LengthRequired(
    exceptions.ClimateError,
    status=411,
    code='request.length_required',
    cure='Send Content-Length, and no Transfer-Encoding.',
):
    """The body has no Content-Length, and the WSGI server does not support chunked bodies."""


class TooLarge(
    exceptions.ClimateError,
    status=413,
    code='request.too_large',
    cure='Send less; ``[oslo_middleware] max_request_body_size`` is the maximum.',
):
    """The body of the request is too large."""


class UnsupportedMediaType(
    exceptions.ClimateError,
    status=415,
    code='request.unsupported_media_type',
    cure='Send JSON, with the header ``Content-Type: application/json``.',
):
    """The body must be JSON."""


class TooManyRequests(
    exceptions.ClimateError,
    status=429,
    code='request.too_many',
    cure='Retry after that time.',
):
    """Too many requests. Retry after the number of seconds in Retry-After."""


#: The errors of middleware, by the HTTP status.
_BY_STATUS: dict[int, type[exceptions.ClimateError]] = {
    400: exceptions.BadRequest,
    401: exceptions.Unauthorized,
    403: exceptions.Forbidden,
    404: exceptions.NotFound,
    413: TooLarge,
    429: TooManyRequests,
    500: InternalError,
    503: exceptions.ServiceUnavailable,
}


def _error_body(status: int, name: str, message: str, field: str | None = None) -> dict[str, Any]:
    """Return the JSON body of an error.

    :param status: the HTTP status, as ``error_code``
    :param name: a machine-readable name that does not change, as ``error_name``
    :param message: a sentence for the user
    :param field: the invalid field of the request, if there is one
    """
    error: dict[str, Any] = {'error_code': status, 'error_message': message, 'error_name': name}
    if field:
        error['field'] = field
    return error


def codes() -> list[tuple[int, str, str, str]]:
    """List the HTTP status, the name, the cause and the cure of every error, in this order."""
    listed = set()
    classes = exceptions.ClimateError.__subclasses__()
    while classes:
        error = classes.pop()
        classes += error.__subclasses__()
        if error.__module__.startswith('climate_core.'):
            cause = ' '.join((error.__doc__ or '').split())
            listed.add((error.status, error.code, cause, error.cure))
    return sorted(listed)


def respond(error: exceptions.ClimateError) -> webob.Response:
    """Build the response for an error."""
    response = _json(error.status, error.body)
    if isinstance(error, MethodNotAllowed):
        response.headers['Allow'] = error.allow
    if isinstance(error, exceptions.ServiceBusy):
        response.headers['Retry-After'] = str(error.retry_after)
    return response


class Faults:
    """Middleware that converts exceptions and the errors of other middleware to JSON."""

    def __init__(self, application: Any) -> None:
        self._application = application

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        if not _is_utf8(request):
            return respond(exceptions.BadRequest('The path of the request must be UTF-8.'))
        if 'Transfer-Encoding' in request.headers and not request.is_body_readable:
            return respond(
                LengthRequired(
                    'The request must have Content-Length and no Transfer-Encoding: this server '
                    'does not support chunked bodies.'
                )
            )
        try:
            response = request.get_response(self._application)
        except exceptions.ClimateError as error:
            if error.status >= 500:
                LOG.warning('%s: %s', error.code, error.message)
            return respond(error)
        except webob.exc.HTTPException as error:
            response = error
        except Exception as exc:  # The last resort: the user gets 500, the log the cause.
            LOG.exception('Unexpected error in %s %s', request.method, feeds.redact(request.path))
            if known := error_for_user(exc):
                return respond(known)
            return respond(InternalError())
        return _translated(response)


def _is_utf8(request: webob.Request) -> bool:
    """Return whether the path is UTF-8, which WebOb decodes at the first access."""
    try:
        return request.path_info is not None
    except UnicodeDecodeError:
        return False


def _translated(response: webob.Response) -> webob.Response:
    """Convert an error of other middleware to JSON with its headers; return other responses."""
    if response.status_code < 400 or _is_converted(response):
        return response
    status = response.status_code
    name = _BY_STATUS[status].code if status in _BY_STATUS else f'http.{status}'
    message = getattr(response, 'detail', None) or sentence(status)
    converted = _json(status, _error_body(status, name, message))
    for name in ('WWW-Authenticate', 'Retry-After'):
        if name in response.headers:
            converted.headers[name] = response.headers[name]
    return converted


def _is_converted(response: webob.Response) -> bool:
    return response.content_type == 'application/json' and b'"error_code"' in response.body


def sentence(status: int) -> str:
    """Return the message of a response of middleware that has none."""
    if status == 503:
        return 'The identity service does not answer. Try again.'
    if status in (401, 413, 429):
        return _BY_STATUS[status]().message
    return f'{http.HTTPStatus(status).phrase}.'


def _json(status: int, body: dict[str, Any]) -> webob.Response:
    return webob.Response(
        status=status, content_type='application/json', body=jsonutils.dump_as_bytes(body)
    )
