# SPDX-License-Identifier: Apache-2.0
"""Add the state RESERVED to nova's lookup tables; nothing is replaced, a second time does nothing.

A reserved server has ``vm_state`` reserved, no task and power state NOSTATE. It is in no list
of states of ``nova.compute.api.check_instance_state``, so every action on it but delete, lock
and wake_up is 409 without further code.
"""

import functools
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from nova.compute import vm_states
from nova.objects import fields

#: ``instances.vm_state``.
RESERVED = 'reserved'
#: ``status`` in the API.
STATUS = 'RESERVED'


def add() -> None:
    """Add the state to objects and versioned notifications, which every service needs."""
    vm_states.RESERVED = RESERVED
    if RESERVED not in fields.InstanceState.ALL:
        fields.InstanceState.RESERVED = RESERVED
        fields.InstanceState.ALL += (RESERVED,)
    field = fields.InstanceStateField.AUTO_TYPE
    if RESERVED not in field._valid_values:
        field._valid_values = [*field._valid_values, RESERVED]


def add_to_api() -> None:
    """Show the state, filter by it, let response validation know it, and show its fault."""
    from nova.api.openstack import common
    from nova.api.openstack.compute.schemas import servers, simple_tenant_usage
    from nova.api.openstack.compute.views import servers as views

    add()
    common._STATE_MAP.setdefault(RESERVED, {'default': STATUS})
    if STATUS not in views.ViewBuilder._fault_statuses:
        views.ViewBuilder._fault_statuses += (STATUS,)
    for module in (servers, simple_tenant_usage):
        for values in enums(module):
            _extend(values)


@functools.cache
def enums(module: ModuleType) -> tuple[list[Any], ...]:
    """Find the value lists of all enumerations in the JSON schemas of a module."""
    return tuple(_enums(vars(module).values()))


def _extend(values: list[Any]) -> None:
    for known, ours in (('SHELVED_OFFLOADED', STATUS), ('shelved_offloaded', RESERVED)):
        if known in values and ours not in values:
            values.append(ours)


def _enums(nodes: Any) -> Iterator[list[Any]]:
    """Find the value lists of all enumerations in JSON schemas, at any depth."""
    for node in nodes:
        if isinstance(node, dict):
            if isinstance(node.get('enum'), list):
                yield node['enum']
            yield from _enums(node.values())
        elif isinstance(node, list):
            yield from _enums(node)
