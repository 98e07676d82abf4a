# SPDX-License-Identifier: Apache-2.0
"""Create stacks for a lease from a template: first a placeholder, then its content.

Heat takes a trust from the user who creates a stack, and Keystone rejects that for a trust-scoped
token. So the stack is created with the user's own token while the lease is created, as a
*placeholder*: the version and the parameters of the template, no resources. It has the id by which
it is reserved, and stores what the user gave; the template is one of its files. One tag says that
it is unfilled, others for which lease and by which request it was created. Filling it is one
update with a token of the lease's trust: same user, same project, so Heat uses the trust that it
has.

Tried with heat 27 and convergence: an update with a template keeps parameters, hidden ones too,
files and ``parameter_defaults`` that it does not name (heat/engine/service.py
``_prepare_stack_updates``), and may come before the placeholder is complete. Its tags replace the
old ones immediately, but cannot be removed (heat/common/param_utils.py ``extract_tags``), so a
stack that is filled has a tag that says so. A preview checks the properties and constraints of
every resource, the quota of stacks, and that the name is free (409 ``StackExists``). It shows each
resource with its properties, and nested resources as a list (heat/engine/api.py
``format_stack_preview``). A property that comes from a resource that does not exist yet is null. A
resource whose members Heat cannot show is shown as it is, and counts nothing.

The C half of PyYAML crashes the whole process on texts that are nested some ten thousand levels
deep; and a few hundred bytes of aliases and merge keys take hours and all memory. So the events of
a text, which its parser returns one by one, are checked first: the depth, and the number of values
and characters with all aliases expanded.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import yaml

from climate_common import limits, resource_types
from climate_core import exceptions
from climate_core.cloud import errors, stacks
from climate_core.lease import model
from climate_core.plugins import provisioned_plugin
from climate_core.plugins.base import ReservedResource

if TYPE_CHECKING:
    from oslo_config import cfg

    from climate_core.cloud import connections
    from climate_core.cloud.stacks import Stack
    from climate_core.lease.model import Reservation

#: Levels of a text. The deepest template of a person has about twenty.
MAX_DEPTH: Final = 100
#: Values and names of a text with all aliases written out: a hundred for each of the resources
#: that Heat lets a stack have.
MAX_VALUES: Final = 100_000
#: Characters of a text, also with all aliases expanded.
MAX_LENGTH: Final = limits.DOCUMENT_LENGTH
#: Characters of a number. Of long ones in base 60, which YAML has, Python takes minutes.
_MAX_NUMBER_LENGTH: Final = 100
#: Characters of a number up to which a mapping may have any number of such names, and the maximum
#: number of longer ones: names that Python hashes alike take quadratic time.
_LONG_NUMBER_LENGTH: Final = 18
_MAX_LONG_NUMBERS: Final = 100
_TOO_DEEP: Final = f'it is more than {MAX_DEPTH} levels deep'


def parse_template(given: Any, field: str) -> Mapping[Any, Any]:
    """Return the content of a template or an environment.

    :param given: an object, or a text of one
    :param field: the name of the request's field, for the error
    :raises climate_core.exceptions.BadRequest: it is no mapping, or too deep or too long
    """
    try:
        found = _parse(given) if isinstance(given, str) else _check_depth(given)
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise exceptions.BadRequest(f'It must be YAML or JSON: {exc!s:.500}', field=field) from exc
    if found is None and field == 'environment':
        return {}
    if not isinstance(found, Mapping):
        raise exceptions.BadRequest('It must be a mapping, in YAML or JSON.', field=field)
    return found


class _Loader(getattr(yaml, 'CSafeLoader', yaml.SafeLoader)):  # type: ignore[misc]
    """Reads YAML as Heat does: what looks like a date is a text (heat/common/template_format)."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (LookupError, AttributeError, TypeError, ArithmeticError) as exc:
            # PyYAML trusts that a value has the form of its tag: "!!bool foo".
            raise ValueError(f'what is tagged {node.tag} must be of that kind') from exc

    def construct_mapping(self, node: yaml.Node, deep: bool = False) -> Any:
        if isinstance(node, yaml.MappingNode):
            self.flatten_mapping(node)
            long = sum(_is_long_number(name) for name, _ in node.value)
            if long > _MAX_LONG_NUMBERS:
                raise ValueError(
                    f'a mapping must have {_MAX_LONG_NUMBERS} names at most that are numbers of '
                    f'more than {_LONG_NUMBER_LENGTH} digits'
                )
        return super().construct_mapping(node, deep)


def _is_long_number(node: yaml.Node) -> bool:
    return node.tag in _NUMBERS and len(node.value) > _LONG_NUMBER_LENGTH


def _construct_number(loader: Any, node: yaml.Node) -> Any:
    if len(loader.construct_scalar(node)) > _MAX_NUMBER_LENGTH:
        raise ValueError(f'a number must have {_MAX_NUMBER_LENGTH} digits at most')
    return _NUMBERS[node.tag](loader, node)


_NUMBERS = {
    'tag:yaml.org,2002:int': _Loader.construct_yaml_int,
    'tag:yaml.org,2002:float': _Loader.construct_yaml_float,
}
for _tag in _NUMBERS:
    _Loader.add_constructor(_tag, _construct_number)
_Loader.add_constructor('tag:yaml.org,2002:timestamp', _Loader.construct_yaml_str)


def _parse(text: str) -> Any:
    """Read a text; what cannot be read is a ValueError, RecursionError or YAMLError."""
    if len(text) > MAX_LENGTH:
        raise ValueError(f'it must have {MAX_LENGTH} characters at most')
    try:
        # With tabs, it is no YAML.
        found = limits.decode(text)
    except ValueError:
        _check_size(text)
        return yaml.load(text, _Loader)  # nosec B506 # a SafeLoader
    return _check_depth(found)


def _check_depth(value: Any) -> Any:
    """Return what was read of JSON; ValueError if it is too deep for what reads it later."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for each in level for child in _children(each)]
    if level:
        raise ValueError(_TOO_DEEP)
    return value


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def _check_size(text: str) -> None:
    """Reject a text that would take too much memory or time to read.

    :raises ValueError: it is too deep, too long with its aliases, or a part of itself
    """
    #: Of each open collection: its anchor, and the totals before it.
    within: list[tuple[str | None, int, int]] = []
    #: Anchor -> the values and the characters that it stands for; None while it is open.
    sizes: dict[str | None, tuple[int, int] | None] = {}
    values = characters = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            within.append((event.anchor, values, characters))
            sizes[event.anchor] = None
            if len(within) > MAX_DEPTH:
                raise ValueError(_TOO_DEEP)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, values_before, characters_before = within.pop()
            values += 1
            sizes[anchor] = values - values_before, characters - characters_before
        elif isinstance(event, yaml.ScalarEvent):
            values, characters = values + 1, characters + len(event.value)
            sizes[event.anchor] = 1, len(event.value)
        elif isinstance(event, yaml.AliasEvent):
            # The parser rejects an alias without an anchor.
            size = sizes.get(event.anchor, (1, 0))
            if size is None:
                raise ValueError(f'*{event.anchor} must not be a part of itself')
            values, characters = values + size[0], characters + size[1]
        if values > MAX_VALUES:
            raise ValueError(f'it must have {MAX_VALUES} values at most, each of an alias counted')
        if characters > MAX_LENGTH:
            raise ValueError(
                f'it must have {MAX_LENGTH} characters at most, those of each alias counted'
            )


_SERVER_TYPE: Final = 'OS::Nova::Server'
_VOLUME_TYPE: Final = 'OS::Cinder::Volume'


def list_previewed_parts(resources: Iterable[Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the servers and volumes that a stack will create, by type.

    :param resources: those of a preview
    :returns: for each what a reservation stores whose plugin creates it; if it is not known yet,
        only :data:`climate_core.lease.model.UNKNOWN`
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for each in _flatten(resources):
        properties = each.get('properties') or {}
        name = str(each.get('resource_name') or each.get('resource_type'))
        if each.get('resource_type') == _SERVER_TYPE:
            found.setdefault(resource_types.SERVER, []).append(_server_params(name, properties))
        elif each.get('resource_type') == _VOLUME_TYPE:
            found.setdefault(resource_types.VOLUME, []).append(_volume_params(name, properties))
    return found


def _flatten(resources: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    for each in resources:
        if isinstance(each, Mapping):
            yield each
        elif isinstance(each, list):
            yield from _flatten(each)


def _server_params(name: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    if not _is_name(properties.get('flavor')):
        return {model.UNKNOWN: f'flavor of {name}'}
    server: dict[str, Any] = {'flavorRef': properties['flavor']}
    disks = properties.get('block_device_mapping_v2') or properties.get('block_device_mapping')
    if disks and not properties.get('image'):
        # Its root disk takes nothing of its host.
        server['block_device_mapping_v2'] = []
    if _is_name(properties.get('availability_zone')):
        server['availability_zone'] = properties['availability_zone']
    return {'server': server}


def _volume_params(name: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    if not properties.get('size'):
        return {model.UNKNOWN: f'size of {name}'}
    volume: dict[str, Any] = {'size': int(properties['size'])}
    if _is_name(properties.get('volume_type')):
        volume['volume_type'] = properties['volume_type']
    return {'volume': volume}


def _is_name(value: Any) -> bool:
    """Return whether a property can be the name of something; a longer one is not stored."""
    return isinstance(value, str | int) and 0 < len(str(value)) <= limits.NAME_LENGTH


#: What a reservation of a stack takes in place of ``resource_id``.
STACK_SCHEMA: Final[Mapping[str, Any]] = {
    'name': {
        'type': 'string',
        # "$" alone would let a line end through.
        'pattern': r'^[a-zA-Z][a-zA-Z0-9_.-]{0,254}(?!\n)$',
        'description': 'Name of the created stack: a letter, then up to 254 letters, digits, "_", '
        '"." and "-".',
    },
    'template': {
        'type': ['object', 'string'],
        'writeOnly': True,
        'description': 'Template of the stack to create, in the format of Heat, in place of '
        'resource_id.',
    },
    'parameters': {
        'type': 'object',
        'writeOnly': True,
        'description': 'Values for the parameters of the template.',
    },
    'environment': {
        'type': ['object', 'string'],
        'writeOnly': True,
        'description': 'The environment of the stack, in the format of Heat.',
    },
    'files': {
        'type': 'object',
        'writeOnly': True,
        'additionalProperties': {'type': 'string'},
        'description': 'The texts that the template names, by their name there.',
    },
    'hold': {
        'type': 'string',
        'enum': ['now', 'start'],
        'description': 'Whether the servers and volumes of the template are reserved now, or '
        'created at the start of the lease. Default: now. Must be left out in a lease of the kind '
        'scheduled: they are reserved shortly before its start.',
    },
}
_NEEDS_TEMPLATE: Final = ('name', 'parameters', 'environment', 'files', 'hold')

UNFILLED: Final = 'climate-unfilled'
FILLED: Final = 'climate-filled'
#: The name of the file that is the template; files of users may not have it.
_FILE: Final = 'climate:template'
_VERSIONS = ('heat_template_version', 'HeatTemplateFormatVersion', 'AWSTemplateFormatVersion')
_PARAMETERS = ('parameters', 'Parameters')
_HIDDEN = ('hidden', 'NoEcho')
_STRATEGIES: Final = 'parameter_merge_strategies'
_LEASE: Final = 'climate_lease_id'


def is_requested(values: Mapping[str, Any]) -> bool:
    """Return whether a reservation of a request specifies a template.

    :raises climate_core.exceptions.BadRequest: it has neither an existing stack nor a template, or
        both
    """
    if 'template' not in values:
        for field in _NEEDS_TEMPLATE:
            if field in values:
                raise exceptions.BadRequest(
                    f'{field}: is allowed only with a template; leave it out, or give a template.',
                    field=field,
                )
        if 'resource_id' not in values:
            raise exceptions.BadRequest(
                'Give the resource_id of an existing stack, or the template of a stack to create.',
                field='resource_id',
            )
        return False
    if 'resource_id' in values:
        raise exceptions.BadRequest(
            'Give a template or the resource_id of an existing stack, not both.',
            field='template',
        )
    if 'name' not in values:
        raise exceptions.BadRequest(
            'It is required: the name of the stack to create.', field='name'
        )
    return True


def check_same(
    conf: 'cfg.ConfigOpts', reservation: 'Reservation', values: Mapping[str, Any]
) -> None:
    """Check that a stack of a lease was created from the specification of a request of its name.

    :raises climate_core.exceptions.NameTaken: it was created from another specification
    """
    digest = reservation.params.get(provisioned_plugin.DIGEST_KEY)
    if reservation.status == 'deleting' or digest is None:
        return
    if digest in _digests(conf, reservation.lease_id, values):
        return
    raise exceptions.NameTaken(
        f'The lease already has a stack {values["name"]} that was created from another '
        'specification. Remove it first, or choose another name.',
        field='name',
    )


def _digests(conf: 'cfg.ConfigOpts', lease_id: str, values: Mapping[str, Any]) -> Sequence[str]:
    digested = {'hold': 'now', **{each: values[each] for each in STACK_SCHEMA if each in values}}
    return provisioned_plugin.compute_digests(conf, lease_id, digested, 'template')


def is_made(reservation: 'Reservation') -> bool:
    """Return whether the stack of a reservation was created for it."""
    return provisioned_plugin.DIGEST_KEY in reservation.params or 'hold' in reservation.params


def _is_held(params: Mapping[str, Any]) -> bool:
    """Return whether the members of a stack are reserved before the start of its lease.

    :param params: of a reservation; in a lease of the kind scheduled they do not show it
    """
    return params.get('hold', 'now') == 'now'


def check_request(
    conf: 'cfg.ConfigOpts',
    conn: 'connections.Connection',
    lease_id: str,
    values: Mapping[str, Any],
) -> dict[str, Any]:
    """Preview a stack to create; return the params that are stored with the reservation.

    :param conf: has the keys of the digest
    :param conn: with the rights of the user
    :param lease_id: of the lease that it would be created for
    """
    kept, shown = placeholder(values), []
    _sent(values, kept)
    digests = _digests(conf, lease_id, values)
    with errors.for_user('template'):
        try:
            shown = stacks.preview(conn, _previewed(lease_id, values))
        except stacks.StackNameTaken as exc:
            # The stack of an equal, interrupted request is found when this one creates its stack.
            _find_placeholder(conn, values, _tags(lease_id, values, kept), exc)
            other = f'{values["name"]}-{lease_id}'
            shown = stacks.preview(conn, {**_previewed(lease_id, values), 'stack_name': other})
    hold = values.get('hold', 'now')
    params = {'name': values['name'], 'hold': hold, provisioned_plugin.DIGEST_KEY: digests[0]}
    return {**params, model.PARTS: list_previewed_parts(shown)}


def create_unfilled(
    conn: 'connections.Connection',
    lease_id: str,
    values: Mapping[str, Any],
    reserved: ReservedResource,
) -> ReservedResource:
    """Create the placeholder for a lease, or find that of an equal request for it.

    :param conn: with the rights of the user
    :param reserved: what the check found
    """
    kept = placeholder(values)
    tags = _tags(lease_id, values, kept)
    request = {**_sent(values, kept), 'tags': ','.join(tags)}
    is_created = True
    with errors.for_user('template'):
        try:
            stack_id = stacks.create(conn, request)
        except stacks.StackNameTaken as exc:
            stack_id, is_created = _find_placeholder(conn, values, tags, exc).id, False
    prepare = _is_held(reserved.params)
    return ReservedResource(
        stack_id, reserved.params, reserved.amounts, is_created, prepare=prepare
    )


def is_unfilled(stack: 'Stack') -> bool:
    """Return whether a stack is still the placeholder that was created for the request."""
    return UNFILLED in stack.tags


def fill(conn: 'connections.Connection', stack: 'Stack', reservation: 'Reservation') -> None:
    """Request the content of the template from Heat, with the rights of the lease's owner.

    :raises climate_core.exceptions.Permanent: the stack does not have its template any more
    """
    template = stacks.read_files(conn, stack).get(_FILE)
    if template is None:
        raise exceptions.Permanent(
            f'The stack lacks its file {_FILE}: its user has updated it. Create another lease.'
        )
    changes: dict[str, Any] = {'template': template, 'tags': FILLED}
    if _is_held(reservation.params):
        # What heat_ext reserves all servers and volumes for, nested ones too.
        defaults = {_LEASE: reservation.lease_id}
        changes['environment'] = {'parameter_defaults': defaults}
    stacks.update_existing(conn, stack, changes)


def placeholder(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template of the placeholder: the version and the parameters of the real one.

    :raises climate_core.exceptions.BadRequest: the template, the environment or the files cannot
        be used
    """
    template = parse_template(values['template'], 'template')
    environment = parse_template(values.get('environment') or {}, 'environment')
    parse_template(values.get('parameters') or {}, 'parameters')
    if _STRATEGIES in environment:
        # They would apply to the update that fills it, in which nothing is to be merged.
        raise exceptions.BadRequest(
            f'{_STRATEGIES} is not supported: write the merged values into the environment.',
            field='environment',
        )
    defaults = environment.get('parameter_defaults')
    if isinstance(defaults, Mapping) and _LEASE in defaults:
        raise exceptions.BadRequest(
            f'It must not have {_LEASE}, which comes from the lease.', field='environment'
        )
    if _FILE in values.get('files', {}):
        raise exceptions.BadRequest(f'They must not have a file called {_FILE}.', field='files')
    kept = {k: template[k] for k in (*_VERSIONS, *_PARAMETERS) if k in template}
    _encode(kept, 'template', 'The parameters of the template cannot')
    return kept


def _sent(values: Mapping[str, Any], placeholder: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request for a placeholder, without its tags; its size is checked."""
    text = values['template']
    text = text if isinstance(text, str) else _encode(text, 'template')
    request = {**_body(values, placeholder), 'files': {**values.get('files', {}), _FILE: text}}
    _encode(request, 'template', 'The stack, with its parameters, environment and files, cannot')
    return request


def _encode(value: Any, field: str, what: str = 'It cannot') -> str:
    try:
        return limits.encode(value)
    except (TypeError, ValueError) as exc:
        raise exceptions.BadRequest(f'{what} be sent to Heat: {exc}.', field=field) from exc


def _body(values: Mapping[str, Any], template: Any) -> dict[str, Any]:
    kept = {k: values[k] for k in ('parameters', 'environment', 'files') if k in values}
    return {'stack_name': values['name'], 'template': template, **kept}


def _previewed(lease_id: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request for the preview: with its lease if it is reserved before that starts.

    A group then shows the number of members that are reserved. The lease does not exist yet, and
    is not read.
    """
    body = _body(values, values['template'])
    if not lease_id or values.get('hold') == 'start':
        return body
    environment = dict(parse_template(values.get('environment') or {}, 'environment'))
    defaults = environment.get('parameter_defaults') or {}
    if isinstance(defaults, Mapping):
        environment['parameter_defaults'] = {**defaults, _LEASE: lease_id}
    try:
        limits.encode(environment)
    except TypeError:
        # It has values that only YAML can express, as bytes, and Heat reads it unchanged.
        return body
    except ValueError as exc:
        raise exceptions.BadRequest(
            f'It cannot be sent to Heat: {exc}.', field='environment'
        ) from exc
    return {**body, 'environment': environment}


def _find_placeholder(
    conn: 'connections.Connection',
    values: Mapping[str, Any],
    tags: Iterable[str],
    error: stacks.StackNameTaken,
) -> 'Stack':
    """Return the placeholder that an equal request created for the same lease.

    :param error: the error of Heat that the name of the stack is taken
    :raises climate_core.exceptions.NameTaken: it is that of another stack
    """
    stack = stacks.find(conn, values['name'])
    if stack is None or stack.status.startswith('DELETE_') or set(tags) - stack.tags:
        raise exceptions.NameTaken(
            f'There is a stack {values["name"]} in this project already. Choose another name, or '
            'reserve that stack by its id.',
            field='name',
        ) from error
    return stack


def _tags(lease_id: str, values: Mapping[str, Any], placeholder: Mapping[str, Any]) -> list[str]:
    """Return the tags of a placeholder; the last is a digest of the request.

    All users of the project see tags and may guess what they are computed from. So what Heat hides
    from them is left out: hidden parameters, and the environment, which may have more of them.
    """
    digested = {k: values[k] for k in ('name', 'template', 'files', 'hold') if k in values}
    declared: dict[str, Any] = {}
    for section in _PARAMETERS:
        found = placeholder.get(section)
        declared |= found if isinstance(found, Mapping) else {}
    given = values.get('parameters', {})
    digested['parameters'] = {k: v for k, v in given.items() if _is_open(declared.get(k))}
    text = _encode(digested, 'template')
    return [UNFILLED, lease_id, f'climate-{hashlib.sha256(text.encode()).hexdigest()[:16]}']


def _is_open(declared: Any) -> bool:
    """Return whether a template does not hide a parameter."""
    return isinstance(declared, Mapping) and not any(declared.get(each) for each in _HIDDEN)
