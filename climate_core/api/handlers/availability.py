# SPDX-License-Identifier: Apache-2.0
"""Answer when something could be reserved."""

import json

import webob

from climate_common import resource_types
from climate_core import exceptions
from climate_core.api import blazar, policy, validation
from climate_core.api.handlers import reservations
from climate_core.api.request import Backend, Request, answer
from climate_core.api.schemas import availability as schema
from climate_core.policies import availability as rules


def get(backend: Backend, request: Request) -> webob.Response:
    """Show the earliest times in which reservations would be granted together.

    Of servers that are not made yet it shows when they are expected to find room.

    Nothing is held: what is free now may be taken by the next request.

    :raises climate_core.exceptions.BadRequest: naming the parameter
    """
    context, values = request.context, dict(request.parameters)
    target = {'project_id': context.project_id, 'user_id': context.user_id}
    policy.authorize(backend.enforcer, context, rules.GET, target)
    for name in ('reservations', 'duration'):
        if name not in values:
            raise exceptions.BadRequest(f'{name}: is missing.', field=name)
    try:
        listed = json.loads(values['reservations'])
    except (ValueError, RecursionError):
        raise exceptions.BadRequest(
            'reservations: must be a JSON list, as [{"resource_type": "physical:host"}].',
            field='reservations',
        )
    validation.check(listed, schema.RESERVATIONS, 'reservations')
    listed = blazar.reservations(listed)
    for number, each in enumerate(listed):
        within = f'reservations[{number}]'
        if 'server' in each and each['resource_type'] == resource_types.SERVER:
            validation.check(each, schema.SERVERS, within)
        else:
            reservations.check(backend, each, within)
    values['reservations'] = listed
    with backend.reserving.turn(context, values):
        return answer(200, {'windows': backend.manager.find_windows(context, values)})
