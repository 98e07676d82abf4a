# SPDX-License-Identifier: Apache-2.0
"""Read and store the specifications of servers and volumes that a lease creates.

Each resource is a reservation; those of one part of the request are a group. Each stores the short
values of the specification. Its objects and lists, as metadata and block devices, are stored once,
with the first of the group, whose row stays as long as the lease. No service is called here.
"""

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from oslo_utils import uuidutils

from climate_common import limits, sealing
from climate_core import exceptions
from climate_core.conf import secrets
from climate_core.lease import model
from climate_core.plugins.base import ReservedResource

if TYPE_CHECKING:
    from oslo_config import cfg

    from climate_core.cloud import connections
    from climate_core.context import RequestContext
    from climate_core.lease.model import Lease, Reservation

#: The property with the reservation for which a resource was created.
MADE_FOR: Final = 'made_for'
#: The key of the digest of its specification in the params of a reservation; never shown.
DIGEST_KEY: Final = '_said'
HOLDS: Final = model.HOLDS

#: What checks a source of volumes with the rights of the user, and the GiB that a volume made from
#: it needs.
SourceCheck = tuple[
    Callable[['connections.Connection', str], Mapping[str, Any]],
    Callable[[Mapping[str, Any]], int],
]

TEXT_SCHEMA: Final = {'type': 'string', 'minLength': 1, 'maxLength': limits.NAME_LENGTH}
#: A name, as Nova accepts it.
PRINTABLE_SCHEMA: Final = {**TEXT_SCHEMA, 'format': 'printable-name'}
UUID_SCHEMA: Final = {'type': 'string', 'format': 'uuid'}
NAME_DESCRIPTION: Final = {
    'description': 'Their name; of several, with -1, -2 and so on at its end.'
}
STORED_TEXT_SCHEMA: Final = {
    'type': 'string',
    'maxLength': limits.NAME_LENGTH,
    'pattern': limits.json_pattern(limits.STORED_PATTERN),
}
COUNT_SCHEMA: Final = {
    'type': 'integer',
    'minimum': 1,
    'maximum': limits.NEW_SERVERS,
    'description': 'How many of them; by default 1.',
}


def metadata_schema(most: int, key_pattern: str) -> dict[str, Any]:
    """Return the schema of the metadata of a resource.

    :param most: items
    """
    return {
        'type': 'object',
        'maxProperties': most,
        'propertyNames': {'pattern': limits.json_pattern(key_pattern)},
        'additionalProperties': STORED_TEXT_SCHEMA,
    }


def made_for_schema(service: str, noun: str) -> dict[str, Any]:
    """Return the property of a reservation whose resource a service creates."""
    told = f'The reservation for which the lease service makes the {noun}. {service} says it; '
    return {MADE_FOR: {**UUID_SCHEMA, 'description': f'{told}users leave it out.'}}


def is_requested(values: Mapping[str, Any], key: str, status: str) -> bool:
    """Return whether a part of a request has the specification of new resources.

    :param key: the property with the specification, which is also the noun for users
    :param status: that of an existing resource which can be reserved
    :raises climate_core.exceptions.BadRequest: it has neither an existing resource nor a
        specification, or both
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


def reserve_group(
    key: str,
    wanted: Mapping[str, Any],
    params: Mapping[str, Any],
    held: Mapping[str, int],
    hidden: tuple[str, ...] = (),
) -> ReservedResource:
    """Reserve the resources of a part of a request.

    :param wanted: their specification, with ``name`` and perhaps ``count``
    :param params: what each reservation stores besides
    :param held: what each will hold, by unit
    :param hidden: the fields of the specification that are not stored
    :raises climate_core.exceptions.BadRequest: the names of several are too long
    """
    shown = {name: each for name, each in wanted.items() if name not in (*hidden, 'count')}
    short = {name: each for name, each in shown.items() if not isinstance(each, dict | list)}
    own = {model.GROUP: uuidutils.generate_uuid(), HOLDS: dict(held)}
    count, claims = wanted.get('count', 1), []
    longest = limits.NAME_LENGTH - len(f'-{count}')
    if count > 1 and len(wanted['name']) > longest:
        raise exceptions.BadRequest(
            f'{key}.name: must have {longest} characters at most, because -1 to -{count} is added '
            'to it.',
            field=f'{key}.name',
        )
    for number in range(1, count + 1):
        name = wanted['name'] if count == 1 else f'{wanted["name"]}-{number}'
        said = shown if number == 1 else short
        kept = {**params, **own, key: {**said, 'name': name}}
        claims.append(ReservedResource(f'{model.UNMADE}{uuidutils.generate_uuid()}', kept, held))
    return dataclasses.replace(claims[0], others=claims[1:])


def read_unsealed_spec(lease: 'Lease', reservation: 'Reservation', key: str) -> dict[str, Any]:
    """Return the whole specification of a reservation, to create its resource.

    :raises climate_core.exceptions.Transient: no key of the operator unseals its metadata
    """
    found = merge_spec(lease, reservation, key)
    if isinstance(found.get('metadata'), sealing.Unopened):
        raise exceptions.Transient(
            'secret_keys of climate.conf has no key that opens its metadata: the operator has to '
            'add it.'
        )
    return found


def merge_spec(lease: 'Lease', reservation: 'Reservation', key: str) -> dict[str, Any]:
    """Return the whole specification of a reservation, with what the first of its group stores.

    Also if that one has ended or was removed.
    """
    found: dict[str, Any] = {}
    for each in lease.reservations:
        if each.group == reservation.group:
            found |= each.params.get(key, {})
    return found | reservation.params[key]


def request_keys(values: Mapping[str, Any], said: Iterable[str]) -> list[Hashable]:
    """Return the keys of a requested resource; see ``ResourcePlugin.request_keys``.

    :param said: the digests of the specification; empty if it has none
    """
    keys: list[Hashable] = []
    if MADE_FOR in values:
        made = MADE_FOR, values[MADE_FOR]
        keys += [made, (*made, values.get('resource_id'))]
    return [*keys, *((DIGEST_KEY, each) for each in said)]


def check_made_for(context: 'RequestContext', lease: 'Lease | None') -> None:
    """Reject a resource that was not created by the lease service for a reservation.

    :param lease: that the resource is to join; None: it is not one that exists
    :raises climate_core.exceptions.InvalidState: the request has no token of the lease's trust
    """
    trust_id = context.trust_id
    if lease is None or trust_id is None or trust_id != lease.trust_id:
        raise exceptions.InvalidState(
            'made_for: the resource was not created by the lease service. Remove the scheduler '
            'hint climate_reservation, which only the lease service may use.',
            field=MADE_FOR,
        )


def reservation_keys(reservation: 'Reservation', key: str) -> list[Hashable]:
    """Return the keys under which a request finds a reservation that is created for its lease.

    The first resource that names the reservation while it is asked for becomes its resource.

    :param key: what the progress of the reservation says while its resource is asked for
    """
    keys: list[Hashable] = [(DIGEST_KEY, reservation.params.get(DIGEST_KEY))]
    if reservation.is_made:
        keys.append((MADE_FOR, reservation.id, reservation.resource_id))
    elif (reservation.progress or {}).get('asked') == key:
        keys.append((MADE_FOR, reservation.id))
    return keys


def compute_digests(
    conf: 'cfg.ConfigOpts', lease_id: str, said: Mapping[str, Any], field: str
) -> Sequence[str]:
    """Return the digests of a specification, see :func:`climate_common.sealing.digests`.

    :raises climate_core.exceptions.BadRequest: it is too long or too deep, naming the field
    """
    try:
        return sealing.digests(limits.encode(said), lease_id, read_digest_keys(conf))
    except (TypeError, ValueError) as exc:
        raise exceptions.BadRequest(f'It cannot be stored: {exc}.', field=field) from exc


def read_digest_keys(conf: 'cfg.ConfigOpts') -> Sequence[str]:
    """Return the keys of the operator for digests: those that seal secrets."""
    secrets.register_keys(conf)
    return secrets.read_keys(conf)
