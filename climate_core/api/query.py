# SPDX-License-Identifier: Apache-2.0
"""Read the parameters of a query string by what the route table says about them."""

from collections.abc import Mapping, Sequence
from typing import Any

import webob

from climate_core import exceptions
from climate_core.api import validation

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
                f'{name}: is not known here. Known are: {known}.', field=name
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
    value = _typed(given[0], schema['type'])
    validation.check(value, schema, name)
    return value


def _typed(text: str, kind: str) -> Any:
    """Return the value, or the text as it is, which the schema refuses then."""
    if kind == 'boolean':
        return _BOOLEANS.get(text.lower(), text)
    # Not all that int() takes: it knows the digits of every script, signs and underscores.
    if kind == 'integer' and text.isascii() and text.isdigit() and len(text) < 20:
        return int(text)
    return text
