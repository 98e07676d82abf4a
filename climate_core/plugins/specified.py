# SPDX-License-Identifier: Apache-2.0
"""Servers and volumes that are made for a lease from the specification in its request.

Each of them is a reservation, which keeps what is said of it; those of one part of the request are
a group. Nothing is asked here.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from oslo_utils import uuidutils

from climate_common import limits
from climate_core import exceptions
from climate_core.lease import model
from climate_core.plugins.base import Claimed

if TYPE_CHECKING:
    from climate_core.lease.model import Reservation

#: The property of a reservation that says for which one a resource was made.
MADE_FOR: Final = 'made_for'
#: Keep with a reservation a digest of what the request said; not shown.
_SAID: Final = '_said'
HOLDS: Final = model.HOLDS
_ROUNDS: Final = 100_000

TEXT: Final = {'type': 'string', 'minLength': 1, 'maxLength': limits.NAME_LENGTH}
UUID: Final = {'type': 'string', 'format': 'uuid'}
NAME: Final = {
    **TEXT,
    'description': 'Their name; of several, with -1, -2 and so on at its end.',
}
COUNT: Final = {
    'type': 'integer',
    'minimum': 1,
    'maximum': limits.NEW_SERVERS,
    'description': 'How many of them; by default 1.',
}


def made_for(service: str, noun: str) -> dict[str, Any]:
    """Return the property of a reservation whose resource is made by a service."""
    told = f'The reservation for which the lease service makes the {noun}. {service} says it; '
    return {MADE_FOR: {**UUID, 'description': f'{told}users leave it out.'}}


def is_requested(values: Mapping[str, Any], key: str, status: str) -> bool:
    """Tell whether a part of a request asks for what is to be made.

    :param key: the property that says what to make, which is also what it is called
    :param status: that of a resource which is there and can be reserved
    :raises climate_core.exceptions.BadRequest: it says neither what is there nor what to make, or
        both
    """
    if key in values and 'resource_id' in values:
        raise exceptions.BadRequest(
            f'Give the resource_id of a {key} that is there, or what {key}s to make, not both.',
            field=key,
        )
    if key not in values and 'resource_id' not in values:
        raise exceptions.BadRequest(
            f'Give the resource_id of a {key} that is {status}, or say in {key} what to make.',
            field='resource_id',
        )
    return key in values


def claim(
    lease_id: str,
    key: str,
    wanted: Mapping[str, Any],
    params: Mapping[str, Any],
    held: Mapping[str, int],
    first: Mapping[str, Any] | None = None,
    hidden: tuple[str, ...] = (),
) -> Claimed:
    """Claim each resource that a part of a request asks for.

    :param wanted: what the request says of them, with ``name`` and perhaps ``count``
    :param params: what each reservation keeps besides
    :param held: what each will hold, by unit
    :param first: what only the first one keeps
    :param hidden: what is not kept of what the request says
    """
    shown = {name: each for name, each in wanted.items() if name not in (*hidden, 'count')}
    own = {
        model.GROUP: uuidutils.generate_uuid(),
        _SAID: _said(lease_id, wanted),
        HOLDS: dict(held),
    }
    count, claims = wanted.get('count', 1), []
    for number in range(1, count + 1):
        name = wanted['name'] if count == 1 else f'{wanted["name"]}-{number}'
        kept = {**params, **own, key: {**shown, 'name': name}}
        if number == 1:
            kept |= first or {}
        claims.append(Claimed(f'{model.UNMADE}{uuidutils.generate_uuid()}', kept, held))
    return dataclasses.replace(claims[0], others=claims[1:])


def is_same(reservation: 'Reservation', values: Mapping[str, Any], key: str) -> bool:
    """Tell whether a reservation of a lease is what a request asks for once more."""
    if reservation.group is None or key not in values:
        return False
    return bool(reservation.params.get(_SAID) == _said(reservation.lease_id, values[key]))


def is_made_for(reservation: 'Reservation', values: Mapping[str, Any]) -> bool:
    """Tell whether a service reserves the resource that is made for a reservation of a lease."""
    if reservation.group is None or values.get(MADE_FOR) != reservation.id:
        return False
    return not reservation.is_made or reservation.resource_id == values.get('resource_id')


def _said(lease_id: str, wanted: Mapping[str, Any]) -> str:
    """Digest what a request says, so that what is secret in it cannot be guessed quickly."""
    text = json.dumps(wanted, sort_keys=True).encode()
    return hashlib.pbkdf2_hmac('sha256', text, lease_id.encode(), _ROUNDS).hex()
