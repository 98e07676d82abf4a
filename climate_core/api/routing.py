# SPDX-License-Identifier: Apache-2.0
"""The rows of the route table, and how the path of a request finds them."""

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import webob

JSON: Final = 'application/json'


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """Handle one method of one path.

    :param handler: is called with the backend, the request and the variables of the path
    :param status: HTTP status of success
    :param policy: name of the rule that is asked; None: open to everybody, without a token of
        Keystone
    :param request_schema: JSON Schema of the body
    :param response_schema: JSON Schema of the answer
    :param also: other answers of success: HTTP status -> JSON Schema; None: it has no body
    :param query: JSON Schemas of the parameters that it knows, by name; others are refused.
        The handler finds them, checked and as the types that are named, in
        ``request.parameters``.
    :param headers: JSON Schemas of the request headers that mean something here, by name; they
        are the handler's to read and check
    :param media: the type of the body of success, with the schema of which only JSON has one
    :param errors: other answers of a path without a token of Keystone
    :param operation: ``operationId`` in the OpenAPI document, without which it is the module and
        the name of the handler; generated clients name their methods by it
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
        """Return the id of the operation in the OpenAPI document: its noun and its verb."""
        module = self.handler.__module__.rpartition('.')[2]
        return self.operation or f'{module}.{self.handler.__name__.rstrip("_")}'


#: Path -> HTTP method -> route.
Table = dict[str, dict[str, Route]]

#: The variables of paths that are no ids, and what they look like.
VARIABLES: Mapping[str, str] = {'property_name': r'[0-9A-Za-z_.:-]+?'}
_ID = '[0-9A-Za-z-]+'


def find_route(table: Table, path: str) -> tuple[Mapping[str, Route], dict[str, str]] | None:
    """Find the routes of a path; ``.json`` or a slash at its end change nothing.

    :returns: the route of each method, and the variables of the path, ids in small letters;
        None if the table does not have the path
    """
    for template, methods in table.items():
        match = _pattern(template).fullmatch(path)
        if match:
            return methods, {
                name: text if name in VARIABLES else text.lower()
                for name, text in match.groupdict().items()
            }
    return None


@functools.cache
def _pattern(template: str) -> re.Pattern[str]:
    def named(variable: re.Match[str]) -> str:
        return f'(?P<{variable[1]}>{VARIABLES.get(variable[1], _ID)})'

    path = re.sub(r'\{(\w+)\}', named, template.replace('.', r'\.').rstrip('/'))
    return re.compile(path + r'(\.json|/)?')


def is_public(table: Table, path: str) -> bool:
    """Return whether a path needs no token of Keystone."""
    found = find_route(table, path)
    return found is not None and all(route.policy is None for route in found[0].values())
