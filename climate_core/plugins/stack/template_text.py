# SPDX-License-Identifier: Apache-2.0
"""Read the templates and environments of users as Heat does: YAML or JSON.

The C half of PyYAML goes down with the whole process in what is nested some ten thousand levels
deep; and a few hundred bytes of aliases and merge keys take hours and all the memory. So the
events of a text, which its parser gives one by one, are checked first: how deep it is, and how
many values and characters it has with all its aliases expanded.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import yaml

from climate_common import limits
from climate_core import exceptions

#: Levels of a text. The deepest template of a person has about twenty.
DEEPEST: Final = 100
#: Values and names of a text with all aliases written out: a hundred for each of the resources
#: that Heat lets a stack have.
MOST: Final = 100_000
#: Characters of a text, also with all aliases expanded.
LONGEST: Final = limits.DOCUMENT_LENGTH
#: Characters of a number. Of long ones in base 60, which YAML has, Python takes minutes.
_DIGITS: Final = 100
#: Characters of a number up to which a mapping may have any number of such names, and the maximum
#: number of longer ones: names that Python hashes alike take quadratic time.
_LONG_NUMBER: Final = 18
_LONG_NUMBERS: Final = 100
_TOO_DEEP: Final = f'it is more than {DEEPEST} levels deep'


def read(given: Any, field: str) -> Mapping[Any, Any]:
    """Return what a template or an environment says.

    :param given: an object, or a text of one
    :param field: the name of the request's field, for the error
    :raises climate_core.exceptions.BadRequest: it is no mapping, or too deep or too long
    """
    try:
        found = _parse(given) if isinstance(given, str) else _flat(given)
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
            if long > _LONG_NUMBERS:
                raise ValueError(
                    f'a mapping must have {_LONG_NUMBERS} names at most that are numbers of more '
                    f'than {_LONG_NUMBER} digits'
                )
        return super().construct_mapping(node, deep)


def _is_long_number(node: yaml.Node) -> bool:
    return node.tag in _NUMBERS and len(node.value) > _LONG_NUMBER


def _number(loader: Any, node: yaml.Node) -> Any:
    if len(loader.construct_scalar(node)) > _DIGITS:
        raise ValueError(f'a number must have {_DIGITS} digits at most')
    return _NUMBERS[node.tag](loader, node)


_NUMBERS = {
    'tag:yaml.org,2002:int': _Loader.construct_yaml_int,
    'tag:yaml.org,2002:float': _Loader.construct_yaml_float,
}
for _tag in _NUMBERS:
    _Loader.add_constructor(_tag, _number)
_Loader.add_constructor('tag:yaml.org,2002:timestamp', _Loader.construct_yaml_str)


def _parse(text: str) -> Any:
    """Read a text; what cannot be read is a ValueError, RecursionError or YAMLError."""
    if len(text) > LONGEST:
        raise ValueError(f'it must have {LONGEST} characters at most')
    try:
        # With tabs, it is no YAML.
        found = limits.decode(text)
    except ValueError:
        _check(text)
        return yaml.load(text, _Loader)  # nosec B506 # a SafeLoader
    return _flat(found)


def _flat(found: Any) -> Any:
    """Return what was read of JSON; ValueError if it is too deep for what reads it later."""
    level = [found]
    for _ in range(DEEPEST):
        level = [child for each in level for child in _children(each)]
    if level:
        raise ValueError(_TOO_DEEP)
    return found


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def _check(text: str) -> None:
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
            if len(within) > DEEPEST:
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
        if values > MOST:
            raise ValueError(f'it must have {MOST} values at most, each of an alias counted')
        if characters > LONGEST:
            raise ValueError(
                f'it must have {LONGEST} characters at most, those of each alias counted'
            )
