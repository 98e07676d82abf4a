# SPDX-License-Identifier: Apache-2.0
"""The standby members of a group: those that stay reserved.

The environment of the group's nested stack lists them (``parameter_defaults: climate_spares``),
so that the list changes together with the template of that stack. The servers and volumes of each
member read it there, however deep they are nested.
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
    """The members of a group, each list in the order in which heat removes them.

    :param active: those that run, or will run after the start
    :param standby: those that stay reserved
    :param failed: the names of the members of both lists that are in a FAILED state
    """

    active: list[Definition]
    standby: list[Definition]
    failed: frozenset[str]

    def wake_up_order(self) -> list[str]:
        """Return the names of the standby members, in the order in which to wake them up."""
        return sorted((name for name, _ in self.standby), key=self.failed.__contains__)


class ActiveMembersClient:
    """Heat's RPC client as the code of a group uses it: only active members are listed.

    :param client: heat.rpc.client.EngineClient
    :param standby: the names of the members to leave out
    """

    def __init__(self, client: Any, standby: frozenset[str]) -> None:
        self._client, self._standby = client, standby

    def list_stack_resources(self, *args: Any, **kwargs: Any) -> list[Mapping[str, Any]]:
        """List the active members, which heat.common.grouputils counts."""
        found = self._client.list_stack_resources(*args, **kwargs)
        return [each for each in found if each[rpc.RES_NAME] not in self._standby]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def parameter_defaults(
    stack_name: str, names: Iterable[str], inherited: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Return the ``parameter_defaults`` that list standby members.

    :param stack_name: the nested stack of the group
    :param names: of the standby members
    :param inherited: ``parameter_defaults`` of the stack that the group is in
    """
    places = {f'{stack_name}/{name}' for name in names} | set(inherited.get(paths.STANDBY) or ())
    return {paths.STANDBY: sorted(places)}
