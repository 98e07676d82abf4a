# SPDX-License-Identifier: Apache-2.0
"""A row of the route table."""

import dataclasses
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


#: Path -> HTTP method -> route.
Table = dict[str, dict[str, Route]]
