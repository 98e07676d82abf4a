# SPDX-License-Identifier: Apache-2.0
"""Answer when something could be reserved."""

from collections.abc import Mapping
from typing import Any

import webob

from climate_common import limits, resource_types
from climate_core import exceptions, policies
from climate_core.api import blazar, policy, validation
from climate_core.api.handlers import reservations
from climate_core.api.request import Backend, Request, answer
from climate_core.api.schemas import calendar as schema


def get(backend: Backend, request: Request) -> webob.Response:
    """Show the earliest times in which reservations would be granted together.

    Of servers that are not made yet it shows when they are expected to find room.

    Nothing is held: what is free now may be taken by the next request.

    :raises climate_core.exceptions.BadRequest: naming the parameter
    """
    context, values = request.context, dict(request.parameters)
    target = {'project_id': context.project_id, 'user_id': context.user_id}
    policy.authorize(backend.enforcer, context, policies.GET_AVAILABILITY, target)
    for name in ('reservations', 'duration'):
        if name not in values:
            raise exceptions.BadRequest(f'{name}: is missing.', field=name)
    try:
        listed = limits.decode(values['reservations'])
    except ValueError:
        raise exceptions.BadRequest(
            'reservations: must be a JSON list, as [{"resource_type": "physical:host"}].',
            field='reservations',
        )
    validation.check(listed, schema.QUERIED_RESERVATIONS, 'reservations')
    values['reservations'] = [
        _check(backend, each, f'reservations[{number}]')
        for number, each in enumerate(blazar.reservations(listed))
    ]
    with backend.reserving.turn(context, values):
        return answer(200, {'windows': backend.manager.find_windows(context, values)})


def _check(backend: Backend, wanted: Mapping[str, Any], within: str) -> dict[str, Any]:
    if 'server' in wanted and wanted['resource_type'] == resource_types.SERVER:
        return dict(validation.check(wanted, schema.NEW_SERVERS, within))
    return reservations.check(backend, wanted, within)
