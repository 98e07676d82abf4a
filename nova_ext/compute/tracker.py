# SPDX-License-Identifier: Apache-2.0
"""Claims of a server that is woken: what the reservation holds is not claimed a second time."""

from typing import Any

from nova import exception, objects, utils
from nova.compute import claims, resource_tracker

from nova_ext import wake_marker
from nova_ext.scheduler import STAT

#: Fields of an instance that its host gives it.
_OF_A_HOST = ('host', 'node', 'compute_id', 'numa_topology')


class HeldClaim(claims.NopClaim):
    """A claim that belongs to the reservation: a failed start does not give it back."""


class ResourceTracker(resource_tracker.ResourceTracker):
    """Nova's tracker, which also announces that reservations can be held here."""

    def instance_claim(
        self, context: Any, instance: Any, nodename: str, allocations: Any, limits: Any = None
    ) -> claims.NopClaim:
        """Claim resources, unless the server is woken where it holds them already."""
        if not wake_marker.get(instance):
            return super().instance_claim(context, instance, nodename, allocations, limits)
        if not self._holds(instance, nodename):
            self._claim_from_lost_host(context, instance, nodename, allocations, limits)
        return HeldClaim()

    def _claim_from_lost_host(
        self, context: Any, instance: Any, nodename: str, allocations: Any, limits: Any
    ) -> None:
        """Claim the server here, and give back what its lost host still holds in Placement.

        If anything fails, the server stays where it was, and this host gives its part back. What
        nova's tracker has counted by then, its next audit drops.
        """
        before = {name: getattr(instance, name) for name in _OF_A_HOST}
        lost = _provider(context, instance.host, instance.node)
        instance.host = instance.node = None
        if instance.numa_topology:
            instance.numa_topology = instance.numa_topology.obj_clone()
            instance.numa_topology.clear_host_pinning()
        try:
            super().instance_claim(context, instance, nodename, allocations, limits)
            self._give_back(context, instance, lost)
        except Exception:
            instance.update(before)
            self._give_back(context, instance, _provider(context, self.host, nodename))
            raise

    def _give_back(self, context: Any, instance: Any, provider: str | None) -> None:
        if provider:
            self.reportclient.remove_provider_tree_from_instance_allocation(
                context, instance.uuid, provider
            )

    @utils.synchronized(resource_tracker.COMPUTE_RESOURCE_SEMAPHORE, fair=True)
    def _holds(self, instance: Any, nodename: str) -> bool:
        """The audit empties and fills the set while it has this lock."""
        return instance.node == nodename and instance.uuid in self.tracked_instances

    def _update(self, context: Any, compute_node: Any, startup: bool = False) -> None:
        stats = self.stats[compute_node.hypervisor_hostname]
        stats[STAT] = '1'
        compute_node.stats = stats
        super()._update(context, compute_node, startup=startup)


def _provider(context: Any, host: str | None, nodename: str | None) -> str | None:
    """Give the resource provider of a host: its ComputeNode's uuid."""
    if not host:
        return None
    try:
        node = objects.ComputeNode.get_by_host_and_nodename(context, host, nodename)
    except exception.ComputeHostNotFound:
        return None
    return node.uuid
