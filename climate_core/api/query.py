# SPDX-License-Identifier: Apache-2.0
"""Read the parameters of a query string by what the route table says about them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import webob

from climate_core import exceptions
from climate_core.api import validation

#: The largest number that databases have.
_LARGEST: Final = 2**63 - 1
_BOOLEANS = {'true': True, '1': True, 'false': False, '0': False}


def read(request: webob.Request, declared: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the parameters that were sent, each as the type that its schema names.

    A list may be given by repeating the parameter, by commas, or both.

    :param declared: JSON Schemas by the name of the parameter
    :raises climate_core.exceptions.BadRequest: naming the parameter that is wrong
    """
    try:
        sent = request.GET.items()
    except UnicodeDecodeError:
        raise exceptions.BadRequest('The query of the request must be UTF-8.')
    texts: dict[str, list[str]] = {}
    for name, text in sent:
        if name not in declared:
            known = ', '.join(sorted(declared)) or 'none'
            raise exceptions.BadRequest(
                f'{name:.80}: is not known here. Known are: {known}.', field=name[:80]
            )
        texts.setdefault(name, []).append(text)
    return {name: _value(name, given, declared[name]) for name, given in texts.items()}


def _value(name: str, given: Sequence[str], schema: Mapping[str, Any]) -> Any:
    if schema['type'] == 'array':
        parts = [part.strip() for text in given for part in text.split(',')]
        for part in parts:
            validation.check(part, schema['items'], name)
        validation.check(parts, {k: v for k, v in schema.items() if k != 'items'}, name)
        return parts
    if len(given) > 1:
        raise exceptions.BadRequest(f'{name}: may be given only once.', field=name)
    text = given[0]
    if schema['type'] == 'integer':
        return _integer(name, text, schema)
    value = _BOOLEANS.get(text.lower(), text) if schema['type'] == 'boolean' else text
    validation.check(value, schema, name)
    return value


def _integer(name: str, text: str, schema: Mapping[str, Any]) -> int:
    least, most = schema['minimum'], schema['maximum']
    # Not all that int() takes: it knows the digits of every script, signs and underscores.
    if text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most:
        return int(text)
    # The largest that a database has says nothing to users.
    bound = '' if most == _LARGEST else f' to {most}'
    raise exceptions.BadRequest(
        f'{name}: must be an integer from {least}{bound or " on"}, not {text!r:.40}.', field=name
    )
