# SPDX-License-Identifier: Apache-2.0
"""Routes, and the requests and responses of their handlers: bodies, queries, ETags, pages."""

import dataclasses
import hashlib
import re
import urllib.parse
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import webob
from oslo_config import cfg
from oslo_serialization import jsonutils

from climate_common import limits
from climate_core import exceptions
from climate_core.api import errors, policy, validation
from climate_core.api.calendar_feed import FeedCache
from climate_core.cloud.connections import Cloud
from climate_core.cloud.limits import Limits
from climate_core.concurrency import ReservingLimit
from climate_core.context import RequestContext
from climate_core.db import leases, sql
from climate_core.db.engine import Database
from climate_core.plugins import base
from climate_core.rpc import ManagerClient

#: Key of the WSGI environment: the validated query parameters, set by the application.
PARAMETERS = 'climate.parameters'

#: Maximum number of pages of a response, so that a request has an end.
_MAX_PAGES: Final = 100
#: The media type of most bodies.
JSON: Final = 'application/json'


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """The call of a method of a path.

    :param handler: a function of the backend, the request and the variables of the path
    :param status: HTTP status of success
    :param policy: the policy that the handler enforces; None: open to all, without a token of
        Keystone
    :param request_schema: JSON Schema of the body of the request
    :param response_schema: JSON Schema of the body of the response
    :param also: other responses of success: HTTP status -> JSON Schema; None: without a body
    :param query: JSON Schemas of the query parameters by name.
        ``request.parameters`` has the validated values.
    :param ignores_unknown: whether other parameters are ignored, as Blazar does, or rejected
    :param headers: JSON Schemas of the request headers by name; the handler validates them
    :param media: the media type of success; only JSON is described by the schema
    :param errors: HTTP statuses of the errors of a path without a token of Keystone
    :param operation: ``operationId`` in the OpenAPI document, by which generated clients name
        their methods; default: the module and the name of the handler
    """

    handler: Callable[..., webob.Response]
    status: int
    policy: str | None = None
    request_schema: Mapping[str, Any] | None = None
    response_schema: Mapping[str, Any] | None = None
    query: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    ignores_unknown: bool = False
    headers: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    also: Mapping[int, Mapping[str, Any] | None] = dataclasses.field(default_factory=dict)
    media: str = JSON
    errors: Sequence[int] = ()
    operation: str | None = None

    @property
    def operation_id(self) -> str:
        """Return the ``operationId`` in the OpenAPI document: noun and verb."""
        module = self.handler.__module__.rpartition('.')[2]
        return self.operation or f'{module}.{self.handler.__name__.rstrip("_")}'


#: Path -> HTTP method -> route.
Table = dict[str, dict[str, Route]]


class Backend:
    """The parts that handlers use: configuration, database, manager, plugins, policies and limits.

    Applications of one process share no backend.

    :param manager_client: receives the writes
    :param plugins: the plugins by type of resource
    :param reserving: limits the number of concurrent requests that reserve resources
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        database: Database,
        manager_client: ManagerClient,
        plugins: Mapping[str, type[base.ResourcePlugin]],
        reserving: ReservingLimit,
    ) -> None:
        self.conf, self.database, self.manager_client = conf, database, manager_client
        self.plugins, self.reserving = plugins, reserving
        self.enforcer = policy.make_enforcer(conf)
        self.limits = Limits(conf, Cloud(conf))
        self.feeds = FeedCache(conf.api.feed_seconds)


class Request(webob.Request):
    """A request that has been routed."""

    @property
    def context(self) -> RequestContext:
        return cast(RequestContext, self.environ[policy.CONTEXT])

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the query parameters of the request, converted to the types of the route."""
        return cast(dict[str, Any], self.environ[PARAMETERS])

    def read_body(
        self,
        schema: Mapping[str, Any],
        prepare: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """Return the validated body.

        :param prepare: changes an object before it is validated
        :raises climate_core.api.errors.UnsupportedMediaType: its media type is not JSON
        :raises climate_core.exceptions.BadRequest: it is not JSON, or violates the schema
        """
        if self.content_type not in ('', 'application/json'):
            raise errors.UnsupportedMediaType(
                f'The body must be application/json, not {self.content_type:.80}.'
            )
        try:
            values = limits.decode(self.body.decode())
        except ValueError as exc:
            raise exceptions.BadRequest(f'The body of the request must be JSON: {exc}.') from exc
        if prepare is not None and isinstance(values, dict):
            values = prepare(values)
        return cast(dict[str, Any], validation.check(values, schema))

    def reject_body(self) -> None:
        """Reject a body other than an empty object.

        :raises climate_core.exceptions.BadRequest: the request has such a body
        """
        body = self.body.strip()
        if body not in (b'', b'{}', b'null'):
            raise exceptions.BadRequest(
                f'{self.path_info} takes no body: leave it out, or send {{}}.'
            )


def drop_unchanged(
    sent: Mapping[str, Any], shown: Mapping[str, Any], kept: Collection[str] = ()
) -> dict[str, Any]:
    """Return a change without the values that a response shows: clients send back what they read.

    :param kept: the names of values that stay
    """
    unset = object()
    return {
        name: value
        for name, value in sent.items()
        if name in kept or shown.get(name, unset) != value
    }


def answer(status: int, body: Mapping[str, Any] | None = None) -> webob.Response:
    """Create a JSON response; without a body it has no content type."""
    if body is None:
        response = webob.Response(status=status)
        del response.content_type
        return response
    return webob.Response(
        status=status, content_type='application/json', body=jsonutils.dump_as_bytes(body)
    )


VERSION_HEADER = 'OpenStack-API-Version'
SERVICE_TYPE = 'reservation'
MICROVERSION = '1.0'


def check_microversion(request: webob.Request) -> None:
    """Reject a request for another microversion than the only one, which is the default.

    :raises climate_core.exceptions.BadRequest: the header names no version
    :raises climate_core.api.errors.NotAcceptable: the version does not exist
    """
    for entry in request.headers.get(VERSION_HEADER, '').split(','):
        service, _, version = entry.strip().partition(' ')
        if service != SERVICE_TYPE or version in (MICROVERSION, 'latest'):
            continue
        if not re.fullmatch(r'\d+\.\d+', version):
            raise exceptions.BadRequest(
                f'{VERSION_HEADER}: must be "{SERVICE_TYPE} {MICROVERSION}".'
            )
        raise errors.NotAcceptable(
            f'{VERSION_HEADER}: must be {MICROVERSION}, the only version, not {version:.80}.'
        )


def set_microversion(response: webob.Response) -> None:
    """Set the header that names the microversion of the response."""
    response.headers[VERSION_HEADER] = f'{SERVICE_TYPE} {MICROVERSION}'
    response.vary = (*(response.vary or ()), VERSION_HEADER)


#: The largest integer of a database.
_LARGEST_INTEGER: Final = 2**63 - 1
_BOOLEANS = {'true': True, '1': True, 'false': False, '0': False}


def read_query(
    request: webob.Request,
    declared: Mapping[str, Mapping[str, Any]],
    *,
    ignores_unknown: bool = False,
) -> dict[str, Any]:
    """Return the query parameters of a request, converted to the types of their schemas.

    A list is given by a repeated parameter, by commas, or both. An empty marker is none.

    :param declared: JSON Schemas by the name of the parameter
    :param ignores_unknown: whether other parameters are ignored
    :raises climate_core.exceptions.BadRequest: naming the invalid parameter
    """
    try:
        sent = request.GET.items()
    except UnicodeDecodeError:
        raise exceptions.BadRequest('The query of the request must be UTF-8.')
    texts: dict[str, list[str]] = {}
    for name, text in sent:
        if (name, text) == ('marker', '') or (ignores_unknown and name not in declared):
            continue
        if name not in declared:
            known = ', '.join(sorted(declared)) or 'none'
            raise exceptions.BadRequest(
                f'{name:.80}: is not known here. Known are: {known}.', field=name[:80]
            )
        texts.setdefault(name, []).append(text)
    return {name: _query_value(name, given, declared[name]) for name, given in texts.items()}


def _query_value(name: str, given: Sequence[str], schema: Mapping[str, Any]) -> Any:
    if schema['type'] == 'array':
        choices = {choice.lower(): choice for choice in schema['items'].get('enum', ())}
        parts = [part.strip() for text in given for part in text.split(',')]
        # Clients of Blazar send the status in lower case.
        parts = [choices.get(part.lower(), part) for part in parts]
        for part in parts:
            validation.check(part, schema['items'], name)
        validation.check(parts, {k: v for k, v in schema.items() if k != 'items'}, name)
        return parts
    if len(given) > 1:
        raise exceptions.BadRequest(f'{name}: may be given only once.', field=name)
    text = given[0]
    if schema['type'] == 'integer':
        return _query_integer(name, text, schema)
    value = _BOOLEANS.get(text.lower(), text) if schema['type'] == 'boolean' else text
    validation.check(value, schema, name)
    return value


def _query_integer(name: str, text: str, schema: Mapping[str, Any]) -> int:
    least, most = schema['minimum'], schema['maximum']
    # int() also accepts signs, underscores and the digits of every script.
    if text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most:
        return int(text)
    # The largest integer of a database means nothing to users.
    bound = '' if most == _LARGEST_INTEGER else f' to {most}'
    raise exceptions.BadRequest(
        f'{name}: must be an integer from {least}{bound or " on"}, not {text!r:.40}.', field=name
    )


_IF_MATCH: dict[str, Any] = {
    'type': 'string',
    'pattern': r'^(\*|(W/)?"[0-9]{1,9}"|[0-9]{1,9})(?!\n)$',
    'description': 'The ETag of the lease that the client read: the request is rejected with 409 '
    'if the lease has another one. An ETag that a proxy made weak (W/"3") when it compressed '
    'the response is accepted, too.',
}
#: The header of a request that changes a lease.
IF_MATCH_HEADERS: dict[str, Any] = {'If-Match': _IF_MATCH}
#: The header of a request for what the client may have already.
IF_NONE_MATCH_HEADERS: dict[str, Any] = {
    'If-None-Match': {
        'type': 'string',
        'description': 'The ETag of an earlier response: an unchanged response is 304 without a '
        'body.',
    }
}
#: Proxies that compress a response make its tag weak; the generation in it is the same.
_GENERATION_TAG = re.compile(r'(?:W/)?"(\d{1,9})"|(\d{1,9})', re.ASCII)


def set_etag(response: webob.Response, generation: int) -> webob.Response:
    """Set the header ``ETag`` to the generation of the lease."""
    response.headers['ETag'] = f'"{generation}"'
    return response


def set_digest_etag(response: webob.Response) -> webob.Response:
    """Set the header ``ETag`` to a digest of the body; return 304 if the request names it.

    A lease has its generation as its ETag, which is of no use for ``If-None-Match``: a lease
    shows more than its generation counts. Events become IN_PROGRESS, places in the queue and
    names of hosts change without a new generation. Nor would 304 save work: one statement
    authorizes the caller and reads all of the lease.
    """
    response.etag = hashlib.sha256(response.body).hexdigest()[:32]
    response.conditional_response = True
    return response


def expected_generation(request: webob.Request, generation: int | None = None) -> int | None:
    """Return the generation that the lease must have, by ``If-Match`` and body; None: any.

    :param generation: the generation in the body
    :raises climate_core.exceptions.BadRequest: the header is no ETag of a lease
    :raises climate_core.exceptions.GenerationConflict: header and body name different ones
    """
    text = request.headers.get('If-Match', '*').strip()
    if text == '*':
        return generation
    match = _GENERATION_TAG.fullmatch(text)
    if match is None:
        raise exceptions.BadRequest(
            'If-Match: must be the ETag of a lease, as "3", or *.', field='If-Match'
        )
    tag_generation = int(match[1] or match[2])
    if generation not in (None, tag_generation):
        raise exceptions.GenerationConflict(
            'If-Match: must name the same generation as the body, or be left out.',
            field='If-Match',
        )
    return tag_generation


def lease_parts(fields: Collection[str] | None) -> Collection[str]:
    """Return the parts of a lease to read for the parameter ``fields``; None: all parts."""
    return leases.PARTS if fields is None else leases.PARTS & set(fields)


def select_fields(shown: Mapping[str, Any], fields: Collection[str] | None) -> dict[str, Any]:
    """Return only the fields of the parameter ``fields``; None: all fields."""
    return {name: value for name, value in shown.items() if fields is None or name in fields}


def page_limit(backend: Backend, request: Request) -> int:
    """Return the size of a page: the requested one, at most ``[api] max_limit``."""
    most: int = backend.conf.api.max_limit
    return min(request.parameters.get('limit', most), most)


def parse_unit_id(text: str) -> int | None:
    """Return the id of a unit of the calendar as a number; None if no unit can have it."""
    is_number = text.isascii() and text.isdigit() and len(text) < 19
    return int(text) if is_number else None


def next_links(request: Request, marker: str) -> list[dict[str, str]]:
    """Return the link to the page after ``marker``: the same request with another marker."""
    others = [(name, text) for name, text in request.GET.items() if name != 'marker']
    query = urllib.parse.urlencode([*others, ('marker', marker)])
    return [{'rel': 'next', 'href': f'{request.path_url}?{query}'}]


def page_body(
    name: str, items: Sequence[dict[str, Any]], links: Sequence[dict[str, str]] | None
) -> dict[str, Any]:
    """Return the body of a page; it has links only if there is a next page."""
    body: dict[str, Any] = {name: items}
    return body if links is None else body | {f'{name}_links': links}


#: Reads the page after a marker (None: the first page); returns its items, and the marker of the
#: next page, or None if there is none.
PageReader = Callable[[Any], tuple[Sequence[dict[str, Any]], Any]]


def answer_pages(request: Request, name: str, read: PageReader) -> webob.Response:
    """Return a page, or without ``limit`` and ``marker`` all pages.

    Clients of Blazar follow no links. A response of several pages is sent while they are read, so
    that no more than a page is in memory.
    """
    items, marker = read(request.parameters.get('marker'))
    if marker is None or request.parameters.keys() & {'limit', 'marker'}:
        links = None if marker is None else next_links(request, str(marker))
        return answer(200, page_body(name, items, links))
    pages = _encode_pages(request, name, read, items, marker)
    return webob.Response(status=200, content_type=JSON, app_iter=pages)


def _encode_pages(
    request: Request, name: str, read: PageReader, items: Sequence[dict[str, Any]], marker: Any
) -> Iterator[bytes]:
    """Yield a JSON object with all pages, or with some and a link to the next one.

    It ends after :data:`_MAX_PAGES`, or after half the bytes that a page may have: members of a
    project choose how much they store.
    """
    part = jsonutils.dump_as_bytes({name: items})[: -len(b']}')]
    yield part
    count, sent = 1, len(part)
    while marker is not None and count < _MAX_PAGES and sent < sql.MAX_PAGE_BYTES // 2:
        items, marker = read(marker)
        if items:
            part = b', ' + jsonutils.dump_as_bytes(items)[1:-1]
            yield part
            sent += len(part)
        count += 1
    yield b']'
    if marker is not None:
        links = {f'{name}_links': next_links(request, str(marker))}
        yield b', ' + jsonutils.dump_as_bytes(links)[1:-1]
    yield b'}'
