# SPDX-License-Identifier: Apache-2.0
"""Choose the rights with which a plugin works, and accept amounts that a service reports.

The service that builds a resource reports what it holds. If the lease service requested that, each
would wait for the other: all threads of nova-api for the lease service (the check of the hints),
and the lease service for nova-api.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from oslo_log import log

from climate_core import exceptions
from climate_core.cloud import errors

if TYPE_CHECKING:
    from climate_core.cloud import Cloud, connections
    from climate_core.context import RequestContext
    from climate_core.lease.model import Lease

LOG = log.getLogger(__name__)

#: The property with the amounts of a reservation.
_AMOUNTS_KEY: Final = 'amounts'
#: Maximum amount of a unit that one resource holds.
_MAX_AMOUNT: Final = 2**31 - 1


def amounts_schema(*units: str) -> dict[str, Any]:
    """Return the property of a type of resource whose amounts have these units."""
    amount = {'type': 'integer', 'minimum': 0, 'maximum': _MAX_AMOUNT}
    amounts = {
        'type': 'object',
        'description': 'What the resource holds. Only the service that builds it may report it, '
        'with a service token. It is verified later.',
        'properties': dict.fromkeys(units, amount),
        'required': list(units),
        'additionalProperties': False,
    }
    return {_AMOUNTS_KEY: amounts}


def reported_amounts(
    context: 'RequestContext', values: Mapping[str, Any]
) -> dict[str, int] | None:
    """Return what a resource holds, by unit; None if that was not reported.

    :param values: a reservation of the request; it has passed the schema
    :raises climate_core.exceptions.BadRequest: the request does not come from a service
    """
    if _AMOUNTS_KEY not in values:
        return None
    if not context.by_service:
        raise exceptions.BadRequest(
            'amounts: only a service that builds the resource may say what it holds, with a '
            'service token that has the role service. Leave it out.',
            field=_AMOUNTS_KEY,
        )
    return {unit: int(amount) for unit, amount in values[_AMOUNTS_KEY].items()}


def check_delegated(cloud: 'Cloud', lease: 'Lease', context: 'RequestContext', field: str) -> None:
    """Reject a delegated token that has fewer roles than the trust of its user's lease.

    Application credentials, trusts and OAuth may stand for less than their user. Keystone checks
    them when a lease is created, since they create its trust.

    :param field: the field of the request that Climate would execute with the trust
    :raises climate_core.exceptions.Forbidden: it lacks roles
    :raises climate_core.exceptions.ServiceUnavailable: Keystone does not answer
    """
    trust_id = lease.trust_id
    if not context.is_delegated or trust_id is None or trust_id == context.trust_id:
        return
    held = {*(context.role_ids or {}).values()}
    with errors.for_user(field):
        roles = cloud.owner_roles(trust_id)
    lacking = sorted(name for role_id, name in roles.items() if role_id not in held)
    if lacking:
        raise exceptions.Forbidden(
            f'{field}: must be given with a lease created with this token, or with a token that '
            f'has the roles {", ".join(lacking)}, with which Climate works for lease {lease.id}.',
            field=field,
        )


def connect_as_owner(cloud: 'Cloud', lease: 'Lease') -> 'connections.Connection':
    """Return the connection with the rights that the owner left with the lease.

    :raises climate_core.exceptions.Permanent: there are none, or they are no more
    :raises climate_core.exceptions.Transient: Keystone does not answer
    """
    if not lease.trust_id:
        raise exceptions.Permanent('The lease has no trust of its owner.')
    return cloud.owner(lease.trust_id)


def connect_at_end(cloud: 'Cloud', lease: 'Lease') -> 'connections.Connection':
    """Return the owner's connection; that of the service if the owner left none.

    :raises climate_core.exceptions.Transient: Keystone does not answer
    """
    try:
        return connect_as_owner(cloud, lease)
    except exceptions.Permanent as exc:
        LOG.warning('Ending lease %s with the rights of the service: %s', lease.id, exc)
        return cloud.service()
