# SPDX-License-Identifier: Apache-2.0
"""How values go to the lease service and come back."""

import datetime
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from urllib import parse

import requests
from keystoneauth1 import adapter

from climateclient import exceptions

T = TypeVar('T')


def encode(value: Any) -> Any:
    """Make a value fit for JSON: times become ISO 8601 in UTC, durations seconds, at any depth.

    :raises ValueError: a datetime has no timezone, so nobody knows when it is
    """
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            raise ValueError(f'The time {value} has no timezone.')
        return value.astimezone(datetime.UTC).isoformat()
    if isinstance(value, datetime.timedelta):
        return math.ceil(value.total_seconds())
    if isinstance(value, Mapping):
        return {key: encode(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [encode(each) for each in value]
    return value


def query(values: Mapping[str, Any]) -> dict[str, Any]:
    """Make the parameters of a URL; what is None or empty is left out.

    Several values of one name are joined by commas.
    """
    result = {}
    for name, value in values.items():
        if isinstance(value, bool):
            result[name] = str(value).lower()
        elif value is None or (isinstance(value, list | tuple) and not value):
            continue
        elif isinstance(value, list | tuple):
            result[name] = ','.join(str(each) for each in value)
        else:
            result[name] = encode(value)
    return result


def path(*parts: str) -> str:
    """A path whose parts may hold any character."""
    return ''.join(f'/{parse.quote(part, safe="")}' for part in parts)


def read(response: requests.Response, key: str, make: Callable[[Any], T]) -> T:
    """What an answer holds under a key, made into a value.

    :raises UnexpectedAnswer: the answer does not look like that
    """
    try:
        return make(response.json()[key])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise exceptions.UnexpectedAnswer(
            f'{response.url} did not answer as the lease service does ({error!r}). '
            'Is it the endpoint of Climate, with /v1 at its end?'
        ) from error


def pages(
    http: adapter.Adapter,
    url: str,
    key: str,
    make: Callable[[Any], T],
    values: Mapping[str, Any],
    limit: int | None = None,
) -> Iterator[T]:
    """What a list holds, page after page; a page is asked for when it is needed.

    Of a link to the next page only the parameters are taken: the token goes to the endpoint
    that is known, whatever the service believes its own address to be.

    :param key: what the answer holds the list under; the links are under ``<key>_links``
    :param values: the parameters of the first page
    :param limit: so many at most
    """
    wanted: Mapping[str, Any] | list[tuple[str, str]] | None = query({**values, 'limit': limit})
    left = limit
    while wanted is not None and left != 0:
        response = http.get(url, params=wanted)
        found = read(response, key, lambda rows: [make(row) for row in rows])
        yield from found[:left]
        if left is not None:
            left -= min(len(found), left)
        wanted = _next(response, key) if found else None


def _next(response: requests.Response, key: str) -> list[tuple[str, str]] | None:
    links = response.json().get(f'{key}_links') or ()
    href = next((link['href'] for link in links if link.get('rel') == 'next'), None)
    return parse.parse_qsl(parse.urlsplit(href).query) if href else None
