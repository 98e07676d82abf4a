# SPDX-License-Identifier: Apache-2.0
"""Stacks that are made through the fake Orchestration API, and filled by updates.

A template is understood as far as its servers and volumes: they are reserved, and asleep, if the
environment has ``climate_lease_id``, ordinary and awake otherwise. A server with the name ``none``
finds no host.
"""

import json
import re
from typing import Any

import yaml

from tests.support.fakes import cinder, nova
from tests.support.fakes.state import Record, Refusal, State

_NAME = re.compile('[a-zA-Z][a-zA-Z0-9_.-]{0,254}')
_LIMIT = 1024 * 1024


def fields(body: Record, caller: Record) -> Record:
    """Return the fields that a request adds to those that every stack has."""
    environment = _mapping(body.get('environment') or {}, 'Environment')
    return {
        'stack_name': body['stack_name'],
        'project_id': caller['project_id'],
        'owner': caller['user_id'].removesuffix('-id'),
        'creds': caller['user_id'],
        'template': _mapping(body['template'], 'Template'),
        'environment': environment,
        'parameters': {**(environment.get('parameters') or {}), **body.get('parameters', {})},
        'files': body.get('files', {}),
        'tags': body['tags'].split(',') if body.get('tags') else [],
    }


def check(state: State, body: Record, caller: Record) -> Record:
    """Refuse what Heat refuses of a new stack; return its fields."""
    made = fields(body, caller)
    if not _NAME.fullmatch(made['stack_name']):
        raise Refusal(400, f'Invalid stack name {made["stack_name"]}')
    if len(json.dumps(body)) > _LIMIT:
        raise Refusal(400, 'Request limit exceeded: JSON body size exceeds maximum')
    for each in state.stacks.values():
        same = (each['project_id'], each['stack_name'], each['parent'])
        if same == (made['project_id'], made['stack_name'], None):
            raise Refusal(409, f'The Stack ({made["stack_name"]}) already exists.')
    _check_template(made['template'], made['parameters'])
    return made


def shown(made: Record) -> list[Record]:
    """Return the resources of a stack that is previewed; parameters are filled in."""
    return [
        {
            'resource_name': name,
            'resource_type': resource['type'],
            'properties': {
                key: made['parameters'].get(value['get_param'])
                if isinstance(value, dict)
                else value
                for key, value in resource.get('properties', {}).items()
            },
        }
        for name, resource in made['template'].get('resources', {}).items()
    ]


def change(stack: Record, body: Record) -> None:
    """Take what an update changes; what it does not name is kept."""
    if 'template' in body:
        template = _mapping(body['template'], 'Template')
        _check_template(template, stack['parameters'])
        stack['template'] = template
    if body.get('tags') is not None:
        stack['tags'] = body['tags'].split(',')
    defaults = body.get('environment', {}).get('parameter_defaults', {})
    before = stack['environment'].get('parameter_defaults') or {}
    stack['environment'] = {
        **stack['environment'],
        'parameter_defaults': {**before, **defaults},
    }


def build(state: State, stack: Record) -> bool:
    """Make the resources of the template that are not there yet; tell whether there were any."""
    before = len(stack['built'])
    lease_id = (stack['environment'].get('parameter_defaults') or {}).get('climate_lease_id')
    for name, resource in stack['template'].get('resources', {}).items():
        if name in stack['built'] or name == 'none':
            continue
        if resource['type'] == 'OS::Nova::Server':
            hints = {'reserved': 'True', 'lease_id': lease_id} if lease_id else {}
            made = nova.add(state, status='RESERVED' if lease_id else 'ACTIVE', hints=hints)
        else:
            status = cinder.RESERVED if lease_id else 'available'
            made = cinder.add(state, status=status, mark=bool(lease_id))
        stack['built'].append(name)
        stack['members'].append(made['id'])
    return len(stack['built']) > before


def lacks_room(stack: Record) -> bool:
    return 'none' in stack['template'].get('resources', {})


def _check_template(template: Record, parameters: Record) -> None:
    if 'heat_template_version' not in template:
        raise Refusal(400, 'The template version is invalid: Template version was not provided')
    declared = template.get('parameters', {})
    for name in parameters:
        if name not in declared:
            raise Refusal(400, f'The Parameter ({name}) was not defined in template.')
    for name, parameter in declared.items():
        if 'default' not in parameter and name not in parameters:
            raise Refusal(400, f'The Parameter ({name}) was not provided.')
    for name, resource in template.get('resources', {}).items():
        if resource['type'] not in ('OS::Nova::Server', 'OS::Cinder::Volume'):
            raise Refusal(400, f'resources.{name}: The Resource Type could not be found.')


def _mapping(given: Any, what: str) -> Record:
    try:
        found = given
        if isinstance(given, str):
            found = json.loads(given) if given.startswith('{"') else yaml.safe_load(given)
    except (yaml.YAMLError, ValueError) as exc:
        raise Refusal(400, f'{what} not in valid format: {exc}') from exc
    if not isinstance(found, dict):
        raise Refusal(400, f'{what} not in valid format: not a mapping.')
    # A date that YAML reads as one.
    return {k: v if k != 'heat_template_version' else str(v) for k, v in found.items()}
