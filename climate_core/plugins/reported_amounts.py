# SPDX-License-Identifier: Apache-2.0
"""Take the amounts that a service reports of a resource that it builds for a lease.

The service that builds a resource knows what it holds. If the lease service asked for that, each
would wait for the other: all threads of nova-api for the lease service (the check of the hints),
and the lease service for nova-api.
"""

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from climate_core import exceptions

if TYPE_CHECKING:
    from climate_core.context import RequestContext

#: The property of a reservation that says it.
KEY: Final = 'amounts'
#: The most that one resource holds of a unit.
_MOST: Final = 2**31 - 1


def schema(*units: str) -> dict[str, Any]:
    """Return the property of a type of resource whose amounts have these units."""
    amount = {'type': 'integer', 'minimum': 0, 'maximum': _MOST}
    amounts = {
        'type': 'object',
        'description': 'What the resource holds. Only the service that builds it may say so, with '
        'a service token: it is believed then, and not asked.',
        'properties': dict.fromkeys(units, amount),
        'required': list(units),
        'additionalProperties': False,
    }
    return {KEY: amounts}


def amounts(context: 'RequestContext', values: Mapping[str, Any]) -> dict[str, int] | None:
    """Return what a resource holds, by unit; None if that was not said.

    :param values: a reservation of the request; it has passed the schema
    :raises climate_core.exceptions.BadRequest: the request does not come from a service
    """
    if KEY not in values:
        return None
    if not context.by_service:
        raise exceptions.BadRequest(
            f'{KEY}: only a service that builds the resource may say what it holds, with a '
            'service token that has the role service. Leave it out.',
            field=KEY,
        )
    return {unit: int(amount) for unit, amount in values[KEY].items()}


def resource_id(values: Mapping[str, Any]) -> str:
    """Return the id of the resource as its service writes it."""
    return str(uuid.UUID(values['resource_id']))
