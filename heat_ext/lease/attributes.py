# SPDX-License-Identifier: Apache-2.0
"""The attributes of ``OS::Climate::Lease``."""

from typing import Any, Final

from heat.engine import attributes

from climate_common import dates, lease_fields
from climateclient import models

_A = attributes.Schema


def _attribute(description: str, json_type: str | None = None) -> attributes.Schema:
    # The lease service changes it, so heat must not answer from its cache.
    return _A(description, type=json_type or _A.STRING, cache_mode=_A.CACHE_NONE)


#: A type of a field -> the type of its attribute; the others are strings.
_TYPES: Final = {
    lease_fields.INTEGER: _A.INTEGER,
    lease_fields.BOOLEAN: _A.BOOLEAN,
    lease_fields.SECONDS: _A.LIST,
    lease_fields.RESERVATIONS: _A.LIST,
    lease_fields.EVENTS: _A.LIST,
}
SCHEMA: Final = {
    field.name: _attribute(field.description or f'{field.title}.', _TYPES.get(field.type))
    for field in lease_fields.shown_in(lease_fields.HEAT)
}
#: The fields of a reservation beside its params.
_RESERVED: Final = ('id', 'resource_type', 'resource_id', 'status', 'status_reason')


def to_values(lease: models.Lease) -> dict[str, Any]:
    """Return the attributes of a lease, of JSON types only."""
    shown = {
        field.name: _to_json(getattr(lease, field.name), field.type)
        for field in lease_fields.shown_in(lease_fields.HEAT)
    }
    return {'id': lease.id, **shown}


def _to_json(value: Any, json_type: str) -> Any:
    match json_type:
        case lease_fields.DATE | lease_fields.STAMP:
            return dates.isoformat(value)
        case lease_fields.SECONDS:
            return list(value)
        case lease_fields.RESERVATIONS:
            return [
                {**reservation.params, **{name: getattr(reservation, name) for name in _RESERVED}}
                for reservation in value
            ]
        case lease_fields.EVENTS:
            return [
                {
                    'id': event.id,
                    'event_type': event.event_type,
                    'time': dates.isoformat(event.time),
                    'status': event.status,
                    'status_reason': event.status_reason,
                }
                for event in value
            ]
    return value
