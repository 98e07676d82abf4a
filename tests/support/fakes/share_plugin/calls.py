# SPDX-License-Identifier: Apache-2.0
"""The calls to Manila. Facts: Shared File Systems API reference v2."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from climate_core.cloud import services

if TYPE_CHECKING:
    from climate_core.cloud import connections

#: ``share-access-rules`` since 2.45.
MANILA = services.Service('Manila', 'shared-file-system', '2', '2.45')
_EVERYWHERE = {'all_tenants': '1'}


def get(conn: 'connections.Connection', share_id: str) -> dict[str, Any]:
    """Return a share as the API shows it."""
    share: dict[str, Any] = MANILA.read(conn, f'/shares/{share_id}', 'share')
    return share


def read_project(share: Mapping[str, Any]) -> str | None:
    """Return the project of a share."""
    return share.get('project_id')


def list_ids(conn: 'connections.Connection') -> list[str]:
    """Return the ids of the shares of all projects."""
    return [str(share['id']) for share in MANILA.pages(conn, '/shares', 'shares', _EVERYWHERE)]


def check_all_visible(conn: 'connections.Connection') -> None:
    """Raise Forbidden if these rights do not see the shares of every project."""
    MANILA.read(conn, '/services', 'services')


def delete(conn: 'connections.Connection', share_id: str) -> None:
    """Request the deletion of a share."""
    MANILA.request(conn, 'DELETE', f'/shares/{share_id}')


def list_access(conn: 'connections.Connection', share_id: str) -> list[dict[str, Any]]:
    """Return the access rules of a share."""
    query = {'share_id': share_id}
    rules: list[dict[str, Any]] = MANILA.read(conn, '/share-access-rules', 'access_list', query)
    return rules


def allow_access(conn: 'connections.Connection', share_id: str, address: str) -> None:
    """Request access to a share for an address."""
    rule = {'access_level': 'rw', 'access_type': 'ip', 'access_to': address}
    MANILA.request(conn, 'POST', f'/shares/{share_id}/action', {'allow_access': rule})
