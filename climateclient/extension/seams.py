# SPDX-License-Identifier: Apache-2.0
"""The check that a service has the extension points that an extension needs."""

import importlib
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from climateclient.extension.errors import Incompatible

#: An extension point: a module, and the path to an attribute in it.
Place = tuple[str, str]
#: The names of the parameters expected there, in their order, or None for any value.
Seams = Mapping[Place, tuple[str, ...] | None]


def check(service: str, *tables: Seams) -> None:
    """Compare a service with tables of extension points.

    :raises Incompatible: with every difference
    """
    found = [fault for table in tables for fault in _differences(table.items())]
    if found:
        raise Incompatible(
            f'Climate cannot work in this {service}, and does not start: ' + '; '.join(found)
        )


def _differences(seams: Iterable[tuple[Place, tuple[str, ...] | None]]) -> Iterable[str]:
    for (module, path), expected in seams:
        try:
            value: Any = importlib.import_module(module)
            for name in path.split('.'):
                value = getattr(value, name)
        except (ImportError, AttributeError):
            yield f'{module}.{path} is missing'
            continue
        if expected is None:
            continue
        parameters = tuple(inspect.signature(value).parameters)
        if parameters != expected:
            yield f'{module}.{path} takes ({", ".join(parameters)}), not ({", ".join(expected)})'
