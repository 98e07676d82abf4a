# SPDX-License-Identifier: Apache-2.0
"""The limits of a project, and what it holds."""

import webob

from climate_core import exceptions, policies
from climate_core.api import policy
from climate_core.api.request import Backend, Request, answer
from climate_core.db import usage as limits_db
from climate_core.lease import limits


def get(backend: Backend, request: Request) -> webob.Response:
    """Show the limits of a project, by default the caller's, and what its live leases hold.

    :raises climate_core.exceptions.BadRequest: neither the request nor the token names a project
    """
    context = request.context
    project_id = request.parameters.get('project_id', context.project_id)
    target = {'project_id': project_id, 'user_id': context.user_id}
    policy.authorize(backend.enforcer, context, policies.GET_LIMITS, target)
    if not project_id:
        raise exceptions.BadRequest(
            'project_id: must be given, since the token has no project.', 'project_id'
        )
    most = backend.limits.of(project_id) or {}
    used = backend.database.read(limits_db.used, project_id)
    shown = {
        name: {'limit': most.get(name, limits.UNLIMITED), 'used': used[name]}
        for name in limits.NAMES
    }
    return answer(200, {'limits': shown})
