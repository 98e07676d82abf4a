# SPDX-License-Identifier: Apache-2.0
"""Claim nothing a second time for a server that holds its resources by a reservation."""

from typing import Any

from nova import utils
from nova.compute import claims, resource_tracker

from nova_ext import wake_marker
from nova_ext.allocations import compute_node_uuid, other_nodes, release
from nova_ext.stats import RESERVES

#: Fields of an instance that its host gives it.
_OF_A_HOST = ('host', 'node', 'compute_id', 'numa_topology')


class HeldClaim(claims.NopClaim):
    """A claim that belongs to the reservation: a failed start does not give it back."""


class ResourceTracker(resource_tracker.ResourceTracker):
    """Nova's tracker, which also reports that this host can hold reservations."""

    def instance_claim(
        self, context: Any, instance: Any, nodename: str, allocations: Any, limits: Any = None
    ) -> claims.NopClaim:
        """Claim resources, unless the server is woken where it holds them already.

        When the server has its claim here, no other host keeps an allocation of it.
        """
        if not wake_marker.get(instance):
            return super().instance_claim(context, instance, nodename, allocations, limits)
        if not self._holds(instance, nodename):
            self._claim_from_lost_host(context, instance, nodename, allocations, limits)
        self._release_others(context, instance, allocations, self.compute_nodes[nodename].uuid)
        return HeldClaim()

    def _claim_from_lost_host(
        self, context: Any, instance: Any, nodename: str, allocations: Any, limits: Any
    ) -> None:
        """Claim the server here.

        If anything fails, the server stays where it was, and this host gives its part back. What
        nova's tracker has counted by then, its next audit drops.
        """
        before = {name: getattr(instance, name) for name in _OF_A_HOST}
        instance.host = instance.node = None
        if instance.numa_topology:
            instance.numa_topology = instance.numa_topology.obj_clone()
            instance.numa_topology.clear_host_pinning()
        try:
            super().instance_claim(context, instance, nodename, allocations, limits)
        except Exception:
            instance.update(before)
            lost = compute_node_uuid(context, instance.host, instance.node)
            self._release_others(context, instance, allocations, lost)
            raise

    def _release_others(
        self, context: Any, instance: Any, allocations: Any, keep: str | None
    ) -> None:
        nodes = other_nodes(context, allocations, keep)
        release(context, self.reportclient, instance, nodes)

    @utils.synchronized(resource_tracker.COMPUTE_RESOURCE_SEMAPHORE, fair=True)
    def _holds(self, instance: Any, nodename: str) -> bool:
        """Return whether this host tracks the server; nova's audit holds the same lock."""
        return instance.node == nodename and instance.uuid in self.tracked_instances

    def _update(self, context: Any, compute_node: Any, startup: bool = False) -> None:
        stats = self.stats[compute_node.hypervisor_hostname]
        stats[RESERVES] = '1'
        compute_node.stats = stats
        super()._update(context, compute_node, startup=startup)
