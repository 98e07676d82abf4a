# SPDX-License-Identifier: Apache-2.0
"""What operators register for reservation packages: hosts, floating IPs, segments.

The calls for them have these schemas, checks and extra properties in common.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final

import webob

from climate_common import limits, resource_types
from climate_core import exceptions
from climate_core.api import errors, policy
from climate_core.api.request import Backend, Request, answer, parse_unit_id
from climate_core.api.schemas import common
from climate_core.context import RequestContext
from climate_core.db import extra_properties
from climate_core.db.extra_properties import ExtraProperties
from climate_hosts import policies as host_rules
from climate_networks.domain import networks
from climate_networks.policies import networks as network_rules

#: Clients of Blazar send every value as a text.
FLAG: Final[dict[str, Any]] = {'enum': [True, False, 'true', 'false', 'True', 'False']}
EXTRA_PROPERTY: Final[dict[str, Any]] = {
    'type': ['string', 'number', 'boolean', 'null'],
    'maxLength': 1024,
    'pattern': limits.json_pattern(limits.TEXT_PATTERN),
    'description': 'An extra property. A text that is a number is compared as one.',
}
RESERVABLE: Final[dict[str, Any]] = {
    **FLAG,
    'description': 'Whether it takes new promises; default true.',
}
#: The ids of projects, or of domains.
IDS: Final[dict[str, Any]] = {
    'type': 'array',
    'items': {
        'type': 'string',
        'minLength': 1,
        'maxLength': 64,
        'pattern': limits.json_pattern(limits.TEXT_PATTERN),
    },
    'maxItems': 1000,
    'uniqueItems': True,
}


def with_extra(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with these properties, and extra ones beside them."""
    return {
        'type': 'object',
        'properties': properties,
        'additionalProperties': EXTRA_PROPERTY,
        'maxProperties': 256,
    }


def with_values(properties: dict[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the same, which may have all of it under ``values`` as well, as some clients do."""
    values = with_extra(properties)
    return {**with_extra({**properties, 'values': values}), 'required': list(required)}


def properties_schema(noun: str) -> dict[str, Any]:
    """Return the schema of a list of extra properties.

    :param noun: of what has them, many of them
    """
    one = {
        'property': {'type': 'string'},
        'private': {'type': 'boolean'},
        'values': {'type': 'array', 'description': f'Which values {noun} have.'},
    }
    listed = {'type': 'array', 'items': common.closed(one, ('property',))}
    return common.envelope('resource_properties', listed)


def properties_query(noun: str, rule: str) -> dict[str, dict[str, Any]]:
    """Return the query of such a list.

    :param rule: the policy of private ones
    """
    return {
        'detail': {'type': 'boolean', 'description': f'true: with the values that {noun} have.'},
        'all': {
            'type': 'boolean',
            'description': f'true: also the private ones. Needs the policy ``{rule}``.',
        },
    }


#: A change of an extra property.
UPDATE_PROPERTY: Final[dict[str, Any]] = common.closed(
    {'private': {'type': 'boolean', 'description': 'Whether users may not see it.'}}, ('private',)
)


def property_schema(resource_type: str) -> dict[str, Any]:
    """Return the schema of one extra property of what is of a type."""
    name = {'type': 'string', 'pattern': limits.json_pattern(limits.PROPERTY_PATTERN)}
    return common.envelope(
        'resource_property',
        common.closed(
            {
                'id': {'type': 'string'},
                'resource_type': {'type': 'string', 'enum': [resource_type]},
                'property_name': name,
                'private': {'type': 'boolean'},
            }
        ),
    )


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


def require_unit_id(one: str, not_found: Callable[[str], exceptions.NotFound]) -> int:
    """Return an id as a number.

    :param not_found: makes the error if nothing can have this id
    """
    found = parse_unit_id(one)
    if found is None:
        raise not_found(one)
    return found


def flatten_values(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a request, which some clients send under ``values``.

    :raises climate_core.exceptions.BadRequest: that is no object
    """
    under = body.get('values', {})
    if not isinstance(under, Mapping):
        raise exceptions.BadRequest('values: must be an object.', field='values')
    values = {**body, **under}
    values.pop('values', None)
    return values


def parse_flag(value: Any) -> bool:
    """Return whether a flag is set, which clients of Blazar send as a text."""
    return str(value).lower() == 'true'


@dataclasses.dataclass(frozen=True, slots=True)
class PropertyCalls:
    """The calls about the extra properties of something; their callers judge who may make them.

    :param stored: the properties in the database
    :param resource_type: of what has them
    :param private_rule: the policy of seeing those that users may not see
    """

    stored: ExtraProperties
    resource_type: str
    private_rule: str

    def list_(self, backend: Backend, request: Request) -> webob.Response:
        """List the extra properties that there are.

        Callers who may not see private ones are shown those of what they can reserve.
        """
        context, asked = request.context, request.parameters
        if asked.get('all'):
            policy.authorize(backend.enforcer, context, self.private_rule, {})
        found = self.list_values(backend, context)
        private = backend.database.read(self.stored.list_private)
        shown = [
            {'property': name, 'private': name in private, 'values': values}
            for name, values in found.items()
            if asked.get('all') or name not in private
        ]
        if not asked.get('detail'):
            shown = [{'property': each['property']} for each in shown]
        return answer(200, {'resource_properties': shown})

    def list_values(self, backend: Backend, context: RequestContext) -> dict[str, list[Any]]:
        """Return the extra properties of what the caller can reserve, with their values."""
        is_seen = policy.visibility_check(context, self._sees_private(backend, context))
        return backend.database.read(self.stored.values, is_seen)

    def update(
        self, request: Request, name: str, change: Callable[[RequestContext, str, bool], None]
    ) -> webob.Response:
        """Make an extra property private, or public again.

        :param change: the operation that does so
        """
        private = request.read_body(UPDATE_PROPERTY)['private']
        change(request.context, name, private)
        shown = {
            'id': name,
            'resource_type': self.resource_type,
            'property_name': name,
            'private': private,
        }
        return answer(200, {'resource_property': shown})

    def list_hidden(self, backend: Backend, context: RequestContext) -> set[str]:
        """Return the names of the properties that the caller may not see."""
        if self._sees_private(backend, context):
            return set()
        return backend.database.read(self.stored.list_private)

    def _sees_private(self, backend: Backend, context: RequestContext) -> bool:
        return policy.allows(backend.enforcer, context, self.private_rule, {})


HOST_PROPERTIES: Final = PropertyCalls(
    extra_properties.HOSTS, resource_types.HOST, host_rules.GET_PRIVATE
)
SEGMENT_PROPERTIES: Final = PropertyCalls(
    extra_properties.SEGMENTS, resource_types.NETWORK, network_rules.GET_PRIVATE
)


#: What users ask for of each host, beside the extra properties.
_HOST_FIELDS: Final = (
    'availability_zone',
    'cpu_arch',
    'cpu_model',
    'cpu_vendor',
    'hypervisor_hostname',
    'hypervisor_type',
    'hypervisor_version',
    'local_gb',
    'memory_mb',
    'vcpus',
)
#: The codes of errors -> the extra properties that are meant, and what there is beside them.
_KNOWN: Final[Mapping[str, tuple[PropertyCalls, tuple[str, ...]]]] = {
    exceptions.UnknownProperty.code: (HOST_PROPERTIES, _HOST_FIELDS),
    exceptions.UnknownSegmentProperty.code: (SEGMENT_PROPERTIES, networks.FACTS),
}


def add_known_properties(
    backend: Backend, context: RequestContext, error: exceptions.UnknownProperty
) -> exceptions.UnknownProperty:
    """Return the error with the names that the caller may see."""
    return type(error)(f'{error.message} {_known(backend, context, error.code)}', error.field)


def add_known_properties_to_dry_run(
    backend: Backend, context: RequestContext, checked: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the answer of a dry run with these names in its refusals."""
    codes = {each['error_name'] for each in checked['refusals']} & _KNOWN.keys()
    known = {code: _known(backend, context, code) for code in codes}
    refusals = [
        {**each, 'error_message': f'{each["error_message"]} {known[each["error_name"]]}'}
        if each['error_name'] in known
        else each
        for each in checked['refusals']
    ]
    return {**checked, 'refusals': refusals}


def _known(backend: Backend, context: RequestContext, code: str) -> str:
    calls, common = _KNOWN[code]
    extra = set(calls.list_values(backend, context)) - calls.list_hidden(backend, context)
    return f'Known are {", ".join(sorted({*common, *extra}))}.'
