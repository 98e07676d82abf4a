# SPDX-License-Identifier: Apache-2.0
"""Read templates and environments of Heat, and its previews of stacks. Pure.

The C half of PyYAML crashes the whole process on texts that are nested some ten thousand levels
deep; and a few hundred bytes of aliases and merge keys take hours and all memory. So the events of
a text, which its parser returns one by one, are checked first: the depth, and the number of values
and characters with all aliases expanded.

Heat shows each resource of a preview with its properties, and what is nested as a list of such
(heat/engine/api.py ``format_stack_preview``). A property that comes from a resource that does not
exist yet is null. A resource whose members Heat cannot show is shown as it is, and counts
nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import yaml

from climate_common import limits, resource_types
from climate_core import exceptions
from climate_core.lease import model

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


def _check_depth(found: Any) -> Any:
    """Return what was read of JSON; ValueError if it is too deep for what reads it later."""
    level = [found]
    for _ in range(MAX_DEPTH):
        level = [child for each in level for child in _children(each)]
    if level:
        raise ValueError(_TOO_DEEP)
    return found


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
    wanted: dict[str, Any] = {'flavorRef': properties['flavor']}
    disks = properties.get('block_device_mapping_v2') or properties.get('block_device_mapping')
    if disks and not properties.get('image'):
        # Its root disk takes nothing of its host.
        wanted['block_device_mapping_v2'] = []
    if _is_name(properties.get('availability_zone')):
        wanted['availability_zone'] = properties['availability_zone']
    return {'server': wanted}


def _volume_params(name: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    if not properties.get('size'):
        return {model.UNKNOWN: f'size of {name}'}
    wanted: dict[str, Any] = {'size': int(properties['size'])}
    if _is_name(properties.get('volume_type')):
        wanted['volume_type'] = properties['volume_type']
    return {'volume': wanted}


def _is_name(value: Any) -> bool:
    """Return whether a property can be the name of something; a longer one is not stored."""
    return isinstance(value, str | int) and 0 < len(str(value)) <= limits.NAME_LENGTH
