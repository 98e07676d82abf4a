# SPDX-License-Identifier: Apache-2.0
"""Resources in a lease."""

from collections.abc import Mapping
from typing import Any

import webob

from climate_core import exceptions
from climate_core.api import policy, render, validation
from climate_core.api.request import Backend, Request, answer
from climate_core.api.schemas import reservation as schema
from climate_core.db import leases as db
from climate_core.policies import reservations as rules


def create(backend: Backend, request: Request, lease_id: str) -> webob.Response:
    """Add a resource; one that is in the lease already is answered as it is."""
    lease = backend.database.read(db.get, lease_id)
    policy.authorize_lease(backend.enforcer, request.context, rules.CREATE, lease)
    values = request.read(schema.CREATE)
    check(backend, values)
    reservation_id = backend.manager.add_reservation(request.context, lease_id, values)
    lease = backend.database.read(db.get, lease_id)
    made = next((r for r in lease.reservations if r.id == reservation_id), None)
    if made is None:
        raise exceptions.LeaseNotFound(f'Lease {lease_id} was changed meanwhile.')
    return answer(201, {'reservation': render.reservation(made)})


def check(backend: Backend, values: Mapping[str, Any], within: str = '') -> None:
    """Check a reservation against the schema of its plugin.

    :param within: where in the body it stands
    :raises climate_core.exceptions.UnknownResourceType: no plugin is for it
    :raises climate_core.exceptions.BadRequest: naming the field
    """
    kind = values['resource_type']
    plugin = backend.plugins.get(kind)
    if plugin is None:
        known = ', '.join(sorted(backend.plugins)) or 'nothing'
        raise exceptions.UnknownResourceType(
            f'{kind!r} cannot be reserved here, only {known}.',
            field=f'{within}.resource_type' if within else 'resource_type',
        )
    for name in sorted({'min', 'max'} & values.keys() - plugin.schema.keys()):
        field = f'{within}.{name}' if within else name
        raise exceptions.BadRequest(
            f'{field}: a reservation of {kind} is one resource; there is no part of it that could '
            'be granted.',
            field=field,
        )
    validation.check(values, schema.of_plugin(plugin), within)
