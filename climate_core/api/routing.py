# SPDX-License-Identifier: Apache-2.0
"""The rows of the route table, and the search for the row of a path."""

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import webob

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
    :param query: JSON Schemas of the query parameters by name; other parameters are rejected.
        ``request.parameters`` has the validated values.
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

#: Path variables that are no ids -> their patterns.
PATH_VARIABLES: Mapping[str, str] = {'property_name': r'[0-9A-Za-z_.:-]+?'}
_ID = '[0-9A-Za-z-]+'


def find_route(table: Table, path: str) -> tuple[Mapping[str, Route], dict[str, str]] | None:
    """Find the routes of a path, with or without ``.json`` or a slash at its end.

    :returns: the route of each method, and the variables of the path with ids in lower case;
        None if the path is unknown
    """
    for template, methods in table.items():
        match = _pattern(template).fullmatch(path)
        if match:
            return methods, {
                name: text if name in PATH_VARIABLES else text.lower()
                for name, text in match.groupdict().items()
            }
    return None


@functools.cache
def _pattern(template: str) -> re.Pattern[str]:
    def named(variable: re.Match[str]) -> str:
        return f'(?P<{variable[1]}>{PATH_VARIABLES.get(variable[1], _ID)})'

    path = re.sub(r'\{(\w+)\}', named, template.replace('.', r'\.').rstrip('/'))
    return re.compile(path + r'(\.json|/)?')


def is_public(table: Table, path: str) -> bool:
    """Return whether no call of a path needs a token of Keystone."""
    match = find_route(table, path)
    return match is not None and all(route.policy is None for route in match[0].values())
