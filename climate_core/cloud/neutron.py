# SPDX-License-Identifier: Apache-2.0
"""Neutron, and what all that Climate makes in it has in common.

Facts: Networking API v2.0; neutron 29.0.0.
"""

import contextlib
import datetime
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from climate_core.cloud import errors, services

if TYPE_CHECKING:
    import requests
    from keystoneauth1.identity import BaseIdentityPlugin

    from climate_core.cloud import connection

NEUTRON: Final = services.Service('Neutron', 'network', '2')


class QuotaFull(errors.Busy):
    """The project has as many of them as its quota in Neutron allows."""


class Taken(errors.Busy):
    """The address, or the segment, is in use in Neutron."""


#: So many ids are in one URL: all are read by a web server that takes 8 KiB.
_IDS: Final = 100
#: What Neutron calls what it refuses with 409.
_CONFLICTS: Final[dict[str, type[Exception]]] = {
    'OverQuota': QuotaFull,
    'IpAddressAlreadyAllocated': Taken,
    'VlanIdInUse': Taken,
    'TunnelIdInUse': Taken,
}


def create(conn: 'connection.Connection', noun: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Create something in a project.

    :param noun: ``floatingip`` or ``network``
    :param values: with a description; tags come later
    :raises QuotaFull: the project may have no more
    :raises Taken: something has the address or the segment
    """
    response = NEUTRON.send(conn, 'POST', f'/{noun}s', {noun: values})
    if response.status_code == 409:
        errors.check(response, NEUTRON.name, _CONFLICTS.get(_type(response)))
    made: dict[str, Any] = errors.read(response, NEUTRON.name, noun)
    return made


def _type(response: 'requests.Response') -> str:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return str(response.json()['NeutronError']['type'])
    return ''


def update(conn: 'connection.Connection', noun: str, one: str, values: Mapping[str, Any]) -> None:
    """Change something by its id."""
    NEUTRON.ask(conn, 'PUT', f'/{noun}s/{one}', {noun: values})


def set_tags(conn: 'connection.Connection', noun: str, one: str, tags: Collection[str]) -> None:
    """Set the tags of something by its id; it takes none when it is created."""
    NEUTRON.ask(conn, 'PUT', f'/{noun}s/{one}/tags', {'tags': sorted(tags)})


def every_mark(conn: 'connection.Connection', noun: str) -> Iterator[dict[str, Any]]:
    """Yield the marks of all that there are, one call for each page.

    There are none where the cloud has no Neutron, or one without them.
    """
    query = {'fields': ['id', 'description', 'tags']}
    with contextlib.suppress(errors.Gone):
        if NEUTRON.is_offered(conn):
            yield from NEUTRON.pages(conn, f'/{noun}s', f'{noun}s', query)


def existing(conn: 'connection.Connection', noun: str, ids: Collection[str]) -> set[str]:
    """Return those of some ids that are there, one call for a hundred of them."""
    listed, found = sorted({*ids}), set()
    for first in range(0, len(listed), _IDS):
        query = {'id': listed[first : first + _IDS], 'fields': 'id'}
        found |= {each['id'] for each in NEUTRON.pages(conn, f'/{noun}s', f'{noun}s', query)}
    return found


def changed_at(conn: 'connection.Connection', noun: str, one: str) -> datetime.datetime | None:
    """Return when something changed last; None if it is gone, or does not say."""
    try:
        stamp = NEUTRON.read(conn, f'/{noun}s/{one}', noun).get('updated_at')
    except errors.Gone:
        return None
    return datetime.datetime.fromisoformat(stamp) if stamp else None


def check_all_visible(conn: 'connection.Connection', plural: str) -> None:
    """Raise Refused if these rights do not see what every project has.

    A listing does not tell: Neutron gives those of one project to users who may not see all. It
    has nothing else that a service may ask for either, so the roles are looked at.

    :param plural: what is looked for, for people
    """
    with errors.translated('Keystone'):
        access = cast('BaseIdentityPlugin', conn.session.auth).get_access(conn.session)
    roles: list[str] = access.role_names  # type: ignore[assignment]
    if not {'admin', 'service'} & {*roles}:
        raise errors.Refused(f'Climate does not see the {plural} of every project.')
