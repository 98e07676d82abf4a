# SPDX-License-Identifier: Apache-2.0
"""Schemas and calls of registered units, which reservation packages declare.

Registered units are what operators add to pools: hosts, floating IPs and network segments.
"""

import abc
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic

import webob

from climate_common import limits
from climate_core import exceptions, packages
from climate_core.api import errors, policy
from climate_core.api.request import (
    Backend,
    Request,
    answer,
    answer_pages,
    page_limit,
    parse_unit_id,
)
from climate_core.api.schemas import common
from climate_core.context import RequestContext
from climate_core.db.registered_units import R, UnitTable

#: A boolean; clients of Blazar send it as a string.
FLAG: Final[dict[str, Any]] = {'enum': [True, False, 'true', 'false', 'True', 'False']}
EXTRA_PROPERTY: Final[dict[str, Any]] = {
    'type': ['string', 'number', 'boolean', 'null'],
    'maxLength': 1024,
    'pattern': limits.json_pattern(limits.TEXT_PATTERN),
    'description': 'An extra property. A text that is a number is compared as one.',
}
RESERVABLE: Final[dict[str, Any]] = {
    **FLAG,
    'description': 'Whether it takes new allocations; default true.',
}
#: A list of ids of projects, or of domains.
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
    """Return the schema of an object with these and with extra properties."""
    return {
        'type': 'object',
        'properties': properties,
        'additionalProperties': EXTRA_PROPERTY,
        'maxProperties': 256,
    }


def with_values(properties: dict[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the same schema for clients that may send all properties under ``values``."""
    values = with_extra(properties)
    return {**with_extra({**properties, 'values': values}), 'required': list(required)}


def created_schema(name: str, plural: str, shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of the response to a request that adds units.

    Clients of Blazar read one unit; the list has all units of a range.

    :param name: the key of the one unit
    :param plural: the key of the list
    :param shown: the schema of a unit
    """
    listed = {'type': 'array', 'items': shown, 'description': 'All of a range, in order.'}
    return common.closed({name: shown, plural: listed}, (name,))


def properties_schema(noun: str) -> dict[str, Any]:
    """Return the schema of a list of extra properties.

    :param noun: the plural of the units that have them
    """
    item = {
        'property': {'type': 'string'},
        'private': {'type': 'boolean'},
        'values': {'type': 'array', 'description': f'Which values {noun} have.'},
    }
    listed = {'type': 'array', 'items': common.closed(item, ('property',))}
    return common.envelope('resource_properties', listed)


def properties_query(noun: str, rule: str) -> dict[str, dict[str, Any]]:
    """Return the query parameters of a list of extra properties.

    :param noun: the plural of the units that have them
    :param rule: the policy of private properties
    """
    return {
        'detail': {'type': 'boolean', 'description': f'true: with the values that {noun} have.'},
        'all': {
            'type': 'boolean',
            'description': 'true: also the private ones, for callers with the policy '
            f'``{rule}``; ignored for others.',
        },
    }


#: A change of an extra property.
UPDATE_PROPERTY: Final[dict[str, Any]] = common.closed(
    {'private': {'type': 'boolean', 'description': 'Whether users may not see it.'}}, ('private',)
)


def property_schema(resource_type: str) -> dict[str, Any]:
    """Return the schema of an extra property of units of a type."""
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


def flatten_values(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a body, which some clients send under ``values``.

    :raises climate_core.exceptions.BadRequest: ``values`` is no object
    """
    nested = body.get('values', {})
    if not isinstance(nested, Mapping):
        raise exceptions.BadRequest('values: must be an object.', field='values')
    values = {**body, **nested}
    values.pop('values', None)
    return values


def parse_flag(value: Any) -> bool:
    """Convert a boolean, which clients of Blazar send as a string."""
    return str(value).lower() == 'true'


class UnitCalls(abc.ABC, Generic[R]):
    """Serve the calls of the API about registered units of one type.

    Handlers enforce the policies before they call these methods.
    """

    resource_type: ClassVar[str]
    #: The name of a unit in an answer; a list has it with an s.
    noun: ClassVar[str]
    units: ClassVar[UnitTable[Any]]
    #: Query parameters -> the columns that they filter.
    filters: ClassVar[Mapping[str, str]]
    #: The policy of seeing the units of all projects; None: all see them.
    all_projects_rule: ClassVar[str | None] = None
    #: The policy of seeing private extra properties; None: units have no extra properties.
    private_rule: ClassVar[str | None] = None
    #: The error for a filter by a property that no unit has.
    unknown_property: ClassVar[type[exceptions.UnknownProperty] | None] = None
    #: The fields that filters may name beside extra properties.
    fields: ClassVar[Sequence[str]] = ()

    @abc.abstractmethod
    def view(self, unit: R, *, sees_all: bool, hidden: Collection[str]) -> dict[str, Any]:
        """Return a unit as the API shows it; extra properties never replace other fields.

        :param sees_all: whether to show which projects may use it
        :param hidden: the names of the extra properties to leave out
        """

    def authorize(self, backend: Backend, request: Request, rule: str) -> None:
        """Enforce a policy, and report 404 for the path of a type that is not enabled.

        :raises climate_core.exceptions.Forbidden: the policy does not allow the request
        :raises climate_core.api.errors.PathNotFound: the plugin of the type is not enabled
        """
        context = request.context
        target = {'project_id': context.project_id, 'user_id': context.user_id}
        policy.authorize(backend.enforcer, context, rule, target)
        if self.resource_type not in backend.plugins:
            raise errors.PathNotFound(
                f'The path {request.path_info} does not exist: {self.resource_type} is not '
                'enabled.'
            )

    def parse_id(self, text: str) -> int:
        """Return the id of a unit as a number.

        :raises climate_core.exceptions.NotFound: no unit can have this id
        """
        unit_id = parse_unit_id(text)
        if unit_id is None:
            raise self.units.not_found(text)
        return unit_id

    def list_units(self, backend: Backend, request: Request) -> webob.Response:
        """Return the units that the caller sees in a response, ordered by id."""
        asked, sees_all = request.parameters, self._sees_all(backend, request.context)
        filters = {column: asked.get(name) for name, column in self.filters.items()}
        viewer = None if sees_all else policy.viewer(request.context)
        limit, hidden = page_limit(backend, request), self.list_hidden(backend, request.context)

        def read(marker: int | None) -> tuple[Sequence[dict[str, Any]], int | None]:
            units, more = backend.database.read(
                self.units.page, filters, marker or 0, limit, viewer
            )
            shown = [self.view(unit, sees_all=sees_all, hidden=hidden) for unit in units]
            return shown, units[-1].id if more else None

        return answer_pages(request, f'{self.noun}s', read)

    def show(self, backend: Backend, request: Request, text: str) -> webob.Response:
        """Return a unit in a response, if the caller sees it."""
        sees_all = self._sees_all(backend, request.context)
        viewer = None if sees_all else policy.viewer(request.context)
        unit = backend.database.read(self.units.get, self.parse_id(text), False, viewer)
        hidden = self.list_hidden(backend, request.context)
        return answer(200, {self.noun: self.view(unit, sees_all=sees_all, hidden=hidden)})

    def answer_changed(
        self,
        backend: Backend,
        request: Request,
        status: int,
        unit_ids: Sequence[int],
        *,
        is_range: bool = False,
    ) -> webob.Response:
        """Return units that an operator has created or changed in a response.

        :param is_range: whether to show all of them, and not only the first
        """
        hidden = self.list_hidden(backend, request.context)
        shown = [
            self.view(backend.database.read(self.units.get, unit_id), sees_all=True, hidden=hidden)
            for unit_id in unit_ids
        ]
        every = {f'{self.noun}s': shown} if is_range else {}
        return answer(status, {self.noun: shown[0], **every})

    def list_properties(self, backend: Backend, request: Request) -> webob.Response:
        """List extra properties; without the policy of private ones, those of reservable units."""
        context, parameters = request.context, request.parameters
        # Blazar ignores the parameter of users who may not see private properties.
        shows_private = parameters.get('all') and self._sees_private(backend, context)
        properties = self.list_values(backend, context)
        private = backend.database.read(self.units.list_private_properties)
        shown = [
            {'property': name, 'private': name in private, 'values': values}
            for name, values in properties.items()
            if shows_private or name not in private
        ]
        if not parameters.get('detail'):
            shown = [{'property': item['property']} for item in shown]
        return answer(200, {'resource_properties': shown})

    def list_values(self, backend: Backend, context: RequestContext) -> dict[str, list[Any]]:
        """Return the extra properties of units that the caller can reserve, with their values."""
        viewer = None if self._sees_private(backend, context) else policy.viewer(context)
        return backend.database.read(self.units.list_property_values, viewer)

    def update_property(
        self, backend: Backend, request: Request, name: str, operation: Any
    ) -> webob.Response:
        """Make an extra property private or public.

        :param operation: the operation of the manager, as ``HostOperations.set_host_property``
        """
        private = request.read_body(UPDATE_PROPERTY)['private']
        backend.manager_client.call(operation, request.context, name, private)
        shown = {
            'id': name,
            'resource_type': self.resource_type,
            'property_name': name,
            'private': private,
        }
        return answer(200, {'resource_property': shown})

    def list_hidden(self, backend: Backend, context: RequestContext) -> set[str]:
        """Return the names of the extra properties that the caller may not see."""
        if self._sees_private(backend, context):
            return set()
        return backend.database.read(self.units.list_private_properties)

    def _sees_private(self, backend: Backend, context: RequestContext) -> bool:
        rule = self.private_rule
        return rule is None or policy.allows(backend.enforcer, context, rule, {})

    def _sees_all(self, backend: Backend, context: RequestContext) -> bool:
        rule = self.all_projects_rule
        return rule is None or policy.allows(backend.enforcer, context, rule, {})


@functools.cache
def _calls_by_code() -> dict[str, UnitCalls[Any]]:
    """Return the calls of the packages by the code of the error for an unknown property."""
    return {
        calls.unknown_property.code: calls
        for package in packages.list_packages()
        for calls in package.list_unit_calls()
        if calls.unknown_property is not None
    }


def add_known_properties(
    backend: Backend, context: RequestContext, error: exceptions.UnknownProperty
) -> exceptions.UnknownProperty:
    """Return the error of an unknown property with the properties that the caller may see."""
    known = _known_properties(backend, context, error.code)
    return type(error)(f'{error.message} {known}', error.field)


def add_known_properties_to_dry_run(
    backend: Backend, context: RequestContext, checked: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the result of a dry run with the same properties in its errors."""
    codes = {error['error_name'] for error in checked['refusals']} & _calls_by_code().keys()
    known = {code: _known_properties(backend, context, code) for code in codes}
    refusals = [
        {**error, 'error_message': f'{error["error_message"]} {known[error["error_name"]]}'}
        if error['error_name'] in known
        else error
        for error in checked['refusals']
    ]
    return {**checked, 'refusals': refusals}


def _known_properties(backend: Backend, context: RequestContext, code: str) -> str:
    calls = _calls_by_code()[code]
    extra = set(calls.list_values(backend, context)) - calls.list_hidden(backend, context)
    return f'Known are {", ".join(sorted({*calls.fields, *extra}))}.'
