# SPDX-License-Identifier: Apache-2.0
"""Show the active members of a group, and not its standby members."""

from typing import Any

from heat.common import exception

from heat_ext.groups import standby_members
from heat_ext.stacks import tree


class ActiveMembersView:
    """A mixin for heat's AutoScalingResourceGroup."""

    def standby_names(self) -> frozenset[str]:
        """Return the names of the standby members that the nested stack has now."""
        if self.resource_id is None:
            return frozenset()
        return tree.list_standby(self.context, self.resource_id)

    def rpc_client(self) -> Any:
        """Return heat's client; its lists of members leave out the standby members."""
        client, standby = self.unfiltered_client(), self.standby_names()
        return standby_members.ActiveMembersClient(client, standby) if standby else client

    def unfiltered_client(self) -> Any:
        """Return heat's own client."""
        return super().rpc_client()

    def get_attribute(self, key: str, *path: Any) -> Any:
        """Return an attribute of the active members, always in the same order.

        An attribute that no template refers to comes from all members in heat, in an order of
        its own.
        """
        if key == self.CURRENT_SIZE or not self.standby_names():
            return super().get_attribute(key, *path)
        if key.startswith('resource.'):
            return self._attribute_of_one(key, path)
        if key in (self.REFS, self.REFS_MAP):
            found = self._of_active(self.REFS_MAP)
        elif path:
            found = self._of_active(self.OUTPUTS, *path)
        else:
            return super().get_attribute(key)
        return found if key in (self.REFS_MAP, self.OUTPUTS) else list(found.values())

    def _of_active(self, key: str, *path: Any) -> dict[str, Any]:
        found = super().get_attribute(key, *path)
        names = self._group_data().member_names(False)
        return {name: found[name] for name in names if name in found}

    def _attribute_of_one(self, key: str, path: tuple[Any, ...]) -> Any:
        _, index, *attribute = key.split('.', 2)
        path = (*attribute, *path)
        found = list(self._of_active(self.OUTPUTS if path else self.REFS_MAP, *path).values())
        try:
            return found[int(index)]
        except IndexError:
            message = f'Member {index!r} not found in group resource {self.name!r}.'
            raise exception.NotFound(message) from None
