# SPDX-License-Identifier: Apache-2.0
"""Serialize what is sent to the lease service, and read its responses."""

import datetime
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from urllib import parse

import requests
from keystoneauth1 import adapter

from climate_common import dates
from climateclient import exceptions

T = TypeVar('T')


def to_json(value: Any) -> Any:
    """Make a value fit for JSON: times become ISO 8601 in UTC, durations seconds, at any depth.

    :raises ValueError: a datetime has no timezone, so its time is not known
    """
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            raise ValueError(f'The time {value} has no timezone: it must have one.')
        return dates.isoformat(value)
    if isinstance(value, datetime.timedelta):
        return math.ceil(value.total_seconds())
    if isinstance(value, Mapping):
        return {key: to_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(each) for each in value]
    return value


def to_query(values: Mapping[str, Any]) -> dict[str, Any]:
    """Make the parameters of a URL; a value that is None or empty is left out.

    Several values of one name are joined by commas.
    """
    query = {}
    for name, value in values.items():
        if isinstance(value, bool):
            query[name] = str(value).lower()
        elif value is None or (isinstance(value, list | tuple) and not value):
            continue
        elif isinstance(value, list | tuple):
            query[name] = ','.join(str(each) for each in value)
        else:
            query[name] = to_json(value)
    return query


def to_path(*parts: str) -> str:
    """Make the path of a URL of parts that may hold any character."""
    return ''.join(f'/{parse.quote(part, safe="")}' for part in parts)


def read(response: requests.Response, key: str, make: Callable[[Any], T]) -> T:
    """Make a value of what a response holds under a key.

    :raises UnexpectedAnswer: the response does not look like that
    """
    try:
        return make(response.json()[key])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise exceptions.UnexpectedAnswer(
            f'{response.url} did not answer as the lease service does ({error!r}). '
            'Is it the endpoint of Climate, with /v1 at its end?'
        ) from error


def read_pages(
    http: adapter.Adapter,
    url: str,
    key: str,
    make: Callable[[Any], T],
    values: Mapping[str, Any],
    limit: int | None = None,
) -> Iterator[T]:
    """Yield the values of a list; a page is requested when it is needed.

    Of a link to the next page only the parameters are taken: the token goes to the endpoint
    that is known, whatever the service believes its own address to be.

    :param key: the response holds the list under this key, the links under ``<key>_links``
    :param values: the parameters of the first page
    :param limit: the maximum number of values
    """
    query: Mapping[str, Any] | list[tuple[str, str]] | None = to_query({**values, 'limit': limit})
    left = limit
    while query is not None and left != 0:
        response = http.get(url, params=query)
        found = read(response, key, lambda rows: [make(row) for row in rows])
        yield from found[:left]
        if left is not None:
            left -= min(len(found), left)
        query = _next_query(response, key) if found else None


def _next_query(response: requests.Response, key: str) -> list[tuple[str, str]] | None:
    links = response.json().get(f'{key}_links') or ()
    href = next((link['href'] for link in links if link.get('rel') == 'next'), None)
    return parse.parse_qsl(parse.urlsplit(href).query) if href else None
