# SPDX-License-Identifier: Apache-2.0
"""Find the reserved resources of a stack and its nested stacks in heat's database.

No other service is asked: a stack without reservations costs one query.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from heat.common import environment_format
from heat.objects import resource as objects
from heat.objects import stack as stacks

from heat_ext.stacks import paths

#: Key in the data of a reserved resource: the id of its lease.
LEASE_KEY = 'climate_lease'
#: Key in the data of a resource whose creation is deferred.
DEFERRED_KEY = 'climate_deferred'


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A resource in heat's database.

    :param stack_id: the stack that it is in
    :param physical_id: the id of its server or volume, or of its nested stack
    :param lease_id: the lease of a reserved resource
    :param template_id: the template of its last update
    :param complete: whether its last action is complete, and neither failed nor in progress
    """

    name: str
    stack_id: str
    physical_id: str | None
    lease_id: str | None
    template_id: int | None = None
    complete: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class ActionProgress:
    """The progress of an action of a stack with some of its resources.

    :param unstarted: the reserved resources among them, without the standby members of groups
    :param passed: those of the reserved resources that this action does not examine again
    :param finished: whether the action is done with all of them
    """

    unstarted: list[Row]
    passed: list[Row]
    finished: bool


def list_unstarted(context: Any, physical_ids: Iterable[str]) -> list[Row]:
    """Return which servers and volumes are reserved, in whatever stack they are.

    :param context: heat's RequestContext
    """
    found = [
        _row(each)
        for wanted in physical_ids
        for each in objects.Resource.get_all_by_physical_resource_id(context, wanted)
        if _is_current(each)
    ]
    return [row for row in found if row.lease_id]


def find_progress(context: Any, stack: Any, names: Iterable[str]) -> ActionProgress:
    """Find the reserved resources among some resources of a stack and what is nested in them.

    :param stack: a heat.engine.stack.Stack
    :param names: of resources of that stack
    """
    wanted = frozenset(names)
    if not wanted:
        return ActionProgress([], [], True)
    everything = objects.Resource.get_all_by_root_stack(
        context, stack.root_stack_id(), None, cache=False
    )
    rows = [_row(each) for each in everything.values() if _is_current(each)]
    tops = [row for row in rows if row.stack_id == stack.id and row.name in wanted]
    done = [top for top in tops if top.complete and top.template_id == stack.t.id]
    inside = {
        top: [row for row in _with_nested(context, [top], rows) if row.lease_id] for top in tops
    }
    return ActionProgress(
        [row for top in tops for row in inside[top]],
        [row for top in done for row in inside[top]],
        {top.name for top in done} == wanted and len(done) == len(tops),
    )


def list_standby(context: Any, stack_id: str) -> frozenset[str]:
    """Return the names of the standby members of a group.

    :param context: heat's RequestContext
    :param stack_id: of the nested stack of the group
    """
    found = stacks.Stack.get_by_id(context, stack_id)
    environment = (found.raw_template.environment or {}) if found else {}
    given = environment.get(environment_format.PARAMETER_DEFAULTS) or {}
    own = [place.partition('/') for place in given.get(paths.STANDBY) or ()]
    return frozenset(name for stack, _, name in own if stack == found.name)


def _with_nested(context: Any, tops: Iterable[Row], rows: Iterable[Row]) -> Iterator[Row]:
    for top in tops:
        yield top
        inside = [row for row in rows if row.stack_id == top.physical_id]
        if inside:
            standby = list_standby(context, inside[0].stack_id)
            active = [row for row in inside if row.name not in standby]
            yield from _with_nested(context, active, rows)


def _is_current(found: Any) -> bool:
    """Return whether a resource is neither being deleted nor replaced."""
    return found.action != 'DELETE' and not found.replaced_by


def _row(found: Any) -> Row:
    data = {each.key: each.value for each in found.data}
    return Row(
        found.name,
        found.stack_id,
        found.physical_resource_id,
        data.get(LEASE_KEY),
        found.current_template_id,
        found.status == 'COMPLETE' and found.action != 'INIT',
    )
