# SPDX-License-Identifier: Apache-2.0
"""Which members of a group stay asleep.

The environment of the nested stack of a group says it (``parameter_defaults: climate_spares``),
so that it changes together with the template of that stack, and the servers and volumes of each
member, however deep they are nested, read it there.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from heat.rpc import api as rpc

from heat_ext.stacks import paths

#: A member: its name, and its heat.engine.rsrc_defn.ResourceDefinition.
Definition = tuple[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Members:
    """Those of a group, each list in the order in which heat takes them away.

    :param wanted: those that are awake, or will be at the start
    :param spares: those that stay asleep
    :param broken: names of those, of both, that are in a FAILED state
    """

    wanted: list[Definition]
    spares: list[Definition]
    broken: frozenset[str]

    def to_wake(self) -> list[str]:
        """Name the spares, those to be woken first at the beginning."""
        return sorted((name for name, _ in self.spares), key=self.broken.__contains__)


class WithoutSpares:
    """Heat's RPC client as the code of a group sees it: only who is wanted is a member.

    :param client: heat.rpc.client.EngineClient
    :param spares: names of members
    """

    def __init__(self, client: Any, spares: frozenset[str]) -> None:
        self._client, self._spares = client, spares

    def list_stack_resources(self, *args: Any, **kwargs: Any) -> list[Mapping[str, Any]]:
        """List the members, as heat.common.grouputils does to count them."""
        found = self._client.list_stack_resources(*args, **kwargs)
        return [each for each in found if each[rpc.RES_NAME] not in self._spares]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def defaults(
    stack_name: str, names: Iterable[str], inherited: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Write the ``parameter_defaults`` of the nested stack of a group.

    :param stack_name: of that stack
    :param names: of the spares
    :param inherited: ``parameter_defaults`` of the stack that the group is in
    """
    places = {f'{stack_name}/{name}' for name in names} | set(inherited.get(paths.SPARES) or ())
    return {paths.SPARES: sorted(places)}
