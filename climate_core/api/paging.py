# SPDX-License-Identifier: Apache-2.0
"""Page lists: the size of a page and the link to the next one."""

import urllib.parse
from collections.abc import Sequence
from typing import Any

from climate_core.api.request import Backend, Request


def limit(backend: Backend, request: Request) -> int:
    """Return the size of a page: the one asked for, at most what the operator allows."""
    most: int = backend.conf.api.max_limit
    return min(request.parameters.get('limit', most), most)


def number(text: str) -> int | None:
    """Return the id of a unit of the calendar as a number; None if no unit can have it."""
    is_one = text.isascii() and text.isdigit() and len(text) < 19
    return int(text) if is_one else None


def links(request: Request, marker: str) -> list[dict[str, str]]:
    """Make the link to the page after ``marker``: the same request with another marker."""
    kept = [(name, text) for name, text in request.GET.items() if name != 'marker']
    query = urllib.parse.urlencode([*kept, ('marker', marker)])
    return [{'rel': 'next', 'href': f'{request.path_url}?{query}'}]


def body(
    name: str, things: Sequence[dict[str, Any]], links: Sequence[dict[str, str]] | None
) -> dict[str, Any]:
    """Return the answer; there are links only if there is more."""
    shown: dict[str, Any] = {name: things}
    return shown if links is None else shown | {f'{name}_links': links}
