# SPDX-License-Identifier: Apache-2.0
"""Which resources of a stack and its nested stacks are asleep, as heat's database says.

No other service is asked: stacks without reservations pay a query, and no call.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from heat.objects import resource as objects

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
    """

    name: str
    stack_id: str
    physical_id: str | None
    lease_id: str | None


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


def sleepers_among(context: Any, stack: Any, names: Iterable[str]) -> list[Row]:
    """Find what is asleep among some resources of a stack, and in what is nested in them."""
    wanted = frozenset(names)
    if not wanted:
        return []
    everything = objects.Resource.get_all_by_root_stack(
        context, stack.root_stack_id(), None, cache=False
    )
    rows = [_row(each) for each in everything.values() if _counts(each)]
    tops = [row for row in rows if row.stack_id == stack.id and row.name in wanted]
    return [row for row in _with_nested(tops, rows) if row.lease_id]


def _with_nested(tops: Iterable[Row], rows: Iterable[Row]) -> Iterator[Row]:
    for top in tops:
        yield top
        if top.physical_id:
            inside = [row for row in rows if row.stack_id == top.physical_id]
            yield from _with_nested(inside, rows)


def _counts(found: Any) -> bool:
    """Whether it is not just waiting to be taken away."""
    return found.action != 'DELETE' and not found.replaced_by


def _row(found: Any) -> Row:
    data = {each.key: each.value for each in found.data}
    return Row(found.name, found.stack_id, found.physical_resource_id, data.get(ASLEEP))
