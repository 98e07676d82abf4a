# SPDX-License-Identifier: Apache-2.0
"""Share what the calls have in common about what an operator registers for leases."""

from collections.abc import Callable, Mapping
from typing import Any

from climate_core import exceptions
from climate_core.api import errors, paging, policy
from climate_core.api.request import Backend, Request


def authorize(backend: Backend, request: Request, rule: str, resource_type: str) -> None:
    """Judge a request; where nothing of this type can be reserved, there is nothing here.

    :raises climate_core.api.errors.PathNotFound: the plugin is not enabled
    """
    context = request.context
    target = {'project_id': context.project_id, 'user_id': context.user_id}
    policy.authorize(backend.enforcer, context, rule, target)
    if resource_type not in backend.plugins:
        raise errors.PathNotFound(
            f'There is nothing at {request.path_info}: {resource_type} is not enabled.'
        )


def number(one: str, not_found: Callable[[str], exceptions.NotFound]) -> int:
    """Return an id as a number.

    :param not_found: makes the error if nothing can have this id
    """
    found = paging.number(one)
    if found is None:
        raise not_found(one)
    return found


def flat(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a request, which some clients send under ``values``.

    :raises climate_core.exceptions.BadRequest: that is no object
    """
    under = body.get('values', {})
    if not isinstance(under, Mapping):
        raise exceptions.BadRequest('values: must be an object.', field='values')
    values = {**body, **under}
    values.pop('values', None)
    return values


def flag(value: Any) -> bool:
    """Return whether a flag is set, which clients of Blazar send as a text."""
    return str(value).lower() == 'true'
