# SPDX-License-Identifier: Apache-2.0
"""Claims of a server that is woken: what the reservation holds is not claimed a second time."""

from typing import Any

from nova import utils
from nova.compute import claims, resource_tracker

from nova_ext import marks
from nova_ext.scheduler import STAT


class HeldClaim(claims.NopClaim):
    """A claim that belongs to the reservation: a failed start does not give it back."""


class ResourceTracker(resource_tracker.ResourceTracker):
    """Nova's tracker, which also announces that reservations can be held here."""

    def instance_claim(
        self, context: Any, instance: Any, nodename: str, allocations: Any, limits: Any = None
    ) -> claims.NopClaim:
        """Claim resources, unless the server is woken where it holds them already."""
        if not marks.get(instance):
            return super().instance_claim(context, instance, nodename, allocations, limits)
        if not self._holds(instance, nodename):
            super().instance_claim(context, instance, nodename, allocations, limits)
        return HeldClaim()

    @utils.synchronized(resource_tracker.COMPUTE_RESOURCE_SEMAPHORE, fair=True)
    def _holds(self, instance: Any, nodename: str) -> bool:
        """The audit empties and fills the set while it has this lock."""
        return instance.node == nodename and instance.uuid in self.tracked_instances

    def _update(self, context: Any, compute_node: Any, startup: bool = False) -> None:
        stats = self.stats[compute_node.hypervisor_hostname]
        stats[STAT] = '1'
        compute_node.stats = stats
        super()._update(context, compute_node, startup=startup)
