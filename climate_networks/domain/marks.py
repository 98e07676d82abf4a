# SPDX-License-Identifier: Apache-2.0
"""Mark what is made in Neutron for reservations, so that it is found again. Pure."""

from collections.abc import Mapping
from typing import Any, Final

#: What the descriptions and the tags begin with of what leases have.
_MARK: Final = 'climate:'
_TAG: Final = 'reservation:'


def mark(reservation_id: str) -> str:
    """Return the description that something of a reservation is created with.

    It is there from the first moment on, but its owner may change it.
    """
    return f'{_MARK}{reservation_id}'


def tag(reservation_id: str) -> str:
    """Return the tag of something of a reservation, by which python-chi finds it, too."""
    return f'{_TAG}{reservation_id}'


def reservation_of(found: Mapping[str, Any]) -> tuple[str, bool] | None:
    """Return for which reservation something was made, and whether its description says so.

    A tag alone may be of Blazar, which has the same one.

    :param found: it, as Neutron shows it; None: it was made for none
    """
    described = found.get('description') or ''
    if described.startswith(_MARK):
        return described.removeprefix(_MARK), True
    tags = (each for each in found.get('tags', ()) if each.startswith(_TAG))
    tagged = next(tags, None)
    return None if tagged is None else (tagged.removeprefix(_TAG), False)


def is_marked(found: Mapping[str, Any]) -> bool:
    """Tell whether something was made for any lease.

    :param found: it, as Neutron shows it
    """
    tags = found.get('tags', ())
    return (found.get('description') or '').startswith(_MARK) or any(
        each.startswith(_TAG) for each in tags
    )


def is_marked_for(found: Mapping[str, Any], reservation_id: str, project_id: str) -> bool:
    """Tell whether something of a project was made for a reservation.

    :param found: it, as Neutron shows it
    """
    marked = found.get('description') == mark(reservation_id)
    tagged = tag(reservation_id) in found.get('tags', ())
    return bool(found['project_id'] == project_id and (marked or tagged))
