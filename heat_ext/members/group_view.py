# SPDX-License-Identifier: Apache-2.0
"""What a group shows of its members: those that are wanted, and not its spares."""

from typing import Any

from heat.common import exception

from heat_ext.members import spares
from heat_ext.stacks import tree


class GroupView:
    """A mixin for heat's AutoScalingResourceGroup."""

    def spare_names(self) -> frozenset[str]:
        """Names of the members that stay asleep, as the nested stack has them now."""
        if self.resource_id is None:
            return frozenset()
        return tree.spares(self.context, self.resource_id)

    def rpc_client(self) -> Any:
        """Heat's client; its lists of members leave out the spares."""
        client, asleep = self.whole_client(), self.spare_names()
        return spares.WithoutSpares(client, asleep) if asleep else client

    def whole_client(self) -> Any:
        """Heat's client as it is."""
        return super().rpc_client()

    def get_attribute(self, key: str, *path: Any) -> Any:
        """Give an attribute of those that are wanted, always in the same order.

        What no template refers to heat asks of all members, and in an order of its own.
        """
        if key == self.CURRENT_SIZE or not self.spare_names():
            return super().get_attribute(key, *path)
        if key.startswith('resource.'):
            return self._attribute_of_one(key, path)
        if key in (self.REFS, self.REFS_MAP):
            found = self._of_wanted(self.REFS_MAP)
        elif path:
            found = self._of_wanted(self.OUTPUTS, *path)
        else:
            return super().get_attribute(key)
        return found if key in (self.REFS_MAP, self.OUTPUTS) else list(found.values())

    def _of_wanted(self, key: str, *path: Any) -> dict[str, Any]:
        found = super().get_attribute(key, *path)
        names = self._group_data().member_names(False)
        return {name: found[name] for name in names if name in found}

    def _attribute_of_one(self, key: str, path: tuple[Any, ...]) -> Any:
        _, index, *attribute = key.split('.', 2)
        path = (*attribute, *path)
        found = list(self._of_wanted(self.OUTPUTS if path else self.REFS_MAP, *path).values())
        try:
            return found[int(index)]
        except IndexError:
            message = f'Member {index!r} not found in group resource {self.name!r}.'
            raise exception.NotFound(message) from None
