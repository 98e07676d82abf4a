# SPDX-License-Identifier: Apache-2.0
"""The place of a resource in the tree of nested stacks."""

from collections.abc import Iterable
from typing import Any

#: Key in ``parameter_defaults``: the places of the standby members of groups.
STANDBY = 'climate_spares'


def list_places(stack: Any, name: str) -> set[str]:
    """Return the places of a resource and of all resources that it is nested in.

    :param stack: the heat.engine.stack.Stack of the resource; each stack up to the root is loaded
    :param name: of the resource in that stack
    :returns: ``<name of a stack>/<name of a resource in it>`` for the resource, and for each
        nested stack around it
    """
    path = stack.path_in_stack()
    inside = [resource for resource, _ in path[1:]] + [name]
    return {f'{outer}/{inner}' for (_, outer), inner in zip(path, inside, strict=True)}


def is_listed(stack: Any, name: str, listed: Iterable[str] | None) -> bool:
    """Return whether a list of places contains a resource or a nested stack around it."""
    wanted = frozenset(listed or ())
    return bool(wanted) and not wanted.isdisjoint(list_places(stack, name))
