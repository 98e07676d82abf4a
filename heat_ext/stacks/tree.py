# SPDX-License-Identifier: Apache-2.0
"""Which resources of a stack and its nested stacks are asleep, as heat's database says.

No other service is asked: stacks without reservations pay a query, and no call.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from heat.common import environment_format
from heat.objects import resource as objects
from heat.objects import stack as stacks

from heat_ext.stacks import paths

#: Of the resource data of a member that sleeps: the id of its lease.
ASLEEP = 'climate_lease'
#: Of the resource data of a resource whose creation waits for a member.
DEFERRED = 'climate_deferred'


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A resource in heat's database.

    :param stack_id: the stack that it is in
    :param physical_id: what it made; of a nested stack the id of that
    :param lease_id: if it is asleep, its lease
    :param template_id: of the template that it was last brought in line with
    :param complete: whether nothing is done with it, and nothing has failed
    """

    name: str
    stack_id: str
    physical_id: str | None
    lease_id: str | None
    template_id: int | None = None
    complete: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Turn:
    """How far an action of a stack has come with some of its resources.

    :param sleepers: what is asleep in them, and is no spare
    :param passed: those of the sleepers that are not looked at any more by this action
    :param is_over: whether the action is through with all of them
    """

    sleepers: list[Row]
    passed: list[Row]
    is_over: bool


def sleepers(context: Any, physical_ids: Iterable[str]) -> list[Row]:
    """Find out which servers and volumes are asleep, whatever stack they are in.

    :param context: heat's RequestContext
    """
    found = [
        _row(each)
        for wanted in physical_ids
        for each in objects.Resource.get_all_by_physical_resource_id(context, wanted)
        if _counts(each)
    ]
    return [row for row in found if row.lease_id]


def turn_of(context: Any, stack: Any, names: Iterable[str]) -> Turn:
    """Find out what is asleep among some resources of a stack, and in what is nested in them."""
    wanted = frozenset(names)
    if not wanted:
        return Turn([], [], True)
    everything = objects.Resource.get_all_by_root_stack(
        context, stack.root_stack_id(), None, cache=False
    )
    rows = [_row(each) for each in everything.values() if _counts(each)]
    tops = [row for row in rows if row.stack_id == stack.id and row.name in wanted]
    done = [top for top in tops if top.complete and top.template_id == stack.t.id]
    inside = {top: _asleep(_with_nested(context, [top], rows)) for top in tops}
    return Turn(
        [row for top in tops for row in inside[top]],
        [row for top in done for row in inside[top]],
        {top.name for top in done} == wanted and len(done) == len(tops),
    )


def spares(context: Any, stack_id: str) -> frozenset[str]:
    """Read which members of a group are not wanted now.

    :param context: heat's RequestContext
    :param stack_id: of the nested stack of the group
    """
    found = stacks.Stack.get_by_id(context, stack_id)
    environment = (found.raw_template.environment or {}) if found else {}
    given = environment.get(environment_format.PARAMETER_DEFAULTS) or {}
    own = [place.partition('/') for place in given.get(paths.SPARES) or ()]
    return frozenset(name for stack, _, name in own if stack == found.name)


def _asleep(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.lease_id]


def _with_nested(context: Any, tops: Iterable[Row], rows: Iterable[Row]) -> Iterator[Row]:
    for top in tops:
        yield top
        inside = [row for row in rows if row.stack_id == top.physical_id]
        if inside:
            left_out = spares(context, inside[0].stack_id)
            wanted = [row for row in inside if row.name not in left_out]
            yield from _with_nested(context, wanted, rows)


def _counts(found: Any) -> bool:
    """Whether it is not just waiting to be taken away."""
    return found.action != 'DELETE' and not found.replaced_by


def _row(found: Any) -> Row:
    data = {each.key: each.value for each in found.data}
    return Row(
        found.name,
        found.stack_id,
        found.physical_resource_id,
        data.get(ASLEEP),
        found.current_template_id,
        found.status == 'COMPLETE' and found.action != 'INIT',
    )
