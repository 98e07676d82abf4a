# SPDX-License-Identifier: Apache-2.0
"""The part of the Identity API v3 from which oslo.limit reads limits."""

from typing import Any

from tests.support.fakes.state import Record, Refusal

SERVICE, ENDPOINT = 'reservation-id', 'endpoint-id'


class Limits:
    """The registered limits: defaults by name, and those of projects by (project, name)."""

    def __init__(self) -> None:
        self.model = 'flat'
        self.defaults: dict[str, int] = {}
        self.projects: dict[tuple[str, str], int] = {}
        self.endpoints = 1


def _model(request: Any) -> Any:
    return {'model': {'name': _limits(request).model, 'description': ''}}


def _services(request: Any) -> Any:
    known = [{'id': SERVICE, 'type': 'reservation', 'name': 'climate'}]
    return {'services': [each for each in known if each['type'] == request.query.get('type')]}


def _endpoints(request: Any) -> Any:
    one = {'id': ENDPOINT, 'service_id': SERVICE, 'region_id': None, 'interface': 'public'}
    return {'endpoints': [one] * _limits(request).endpoints}


def _registered(request: Any) -> Any:
    request.caller()
    found = _limits(request).defaults.items()
    return {'registered_limits': [_row(name, default_limit=most) for name, most in found]}


def _of_projects(request: Any) -> Any:
    """Return the limits that the caller may see: all of them, or those of their project."""
    caller = request.caller()
    _check(request)
    wanted = request.query.get('project_id')
    rows = [
        _row(name, project_id=project, resource_limit=most)
        for (project, name), most in _limits(request).projects.items()
        if project == wanted
        and ({'admin', 'service'} & set(caller['roles']) or project == caller['project_id'])
    ]
    return {'limits': rows}


def _row(name: str, **more: Any) -> Record:
    return {'id': f'{name}-id', 'service_id': SERVICE, 'resource_name': name, **more}


def _check(request: Any) -> None:
    request.caller()
    if request.query.get('service_id') != SERVICE:
        raise Refusal(400, 'Ask for one service.')


def _limits(request: Any) -> Limits:
    found: Limits = request.server.state.limits
    return found


_V3 = '/identity/v3'
ROUTES = (
    ('GET', f'{_V3}/limits/model', _model),
    ('GET', f'{_V3}/limits', _of_projects),
    ('GET', f'{_V3}/registered_limits', _registered),
    ('GET', f'{_V3}/services', _services),
    ('GET', f'{_V3}/endpoints', _endpoints),
)
