# SPDX-License-Identifier: Apache-2.0
"""Where a resource is in the tree of a stack."""

from collections.abc import Iterable
from typing import Any

#: Of ``parameter_defaults``: the places of the members of groups that stay asleep.
SPARES = 'climate_spares'


def places(stack: Any, name: str) -> set[str]:
    """Name a resource and all that it is nested in.

    :param stack: the heat.engine.stack.Stack that it is in; each stack up to the root is loaded
    :param name: of the resource in that stack
    :returns: ``<name of a stack>/<name of a resource in it>`` for the resource, and for each
        nested stack around it
    """
    path = stack.path_in_stack()
    inside = [resource for resource, _ in path[1:]] + [name]
    return {f'{outer}/{inner}' for (_, outer), inner in zip(path, inside, strict=True)}


def among(stack: Any, name: str, listed: Iterable[str] | None) -> bool:
    """Tell whether a resource, or a nested stack around it, is in a list of places."""
    wanted = frozenset(listed or ())
    return bool(wanted) and not wanted.isdisjoint(places(stack, name))
