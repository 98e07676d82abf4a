# SPDX-License-Identifier: Apache-2.0
"""``OS::Climate::HeldFloatingIP``: ``OS::Neutron::FloatingIP`` of a stack that is reserved.

Neutron gives the floating IP from its pools at its creation, and it can be associated from then
on: nothing sleeps. It joins the lease of the stack, which shows it and ends with it.
"""

from typing import Any, Final

from heat.common import exception
from heat.engine.resources.openstack.neutron import floatingip
from keystoneauth1 import exceptions as ks_exceptions
from oslo_log import log

from climate_common import resource_types
from climateclient import exceptions
from climateclient.extension import hints
from heat_ext.members import reservation_request
from heat_ext.service import leases

LOG = log.getLogger(__name__)

#: Key in the resource data: the id of the lease that the floating IP joined.
_LEASE_KEY: Final = 'climate_held_in'
#: What the lease service says where it reserves no floating IPs.
_UNKNOWN_TYPE: Final = 'reservation.unknown_type'


class HeldFloatingIP(floatingip.FloatingIP):
    """A floating IP that joins the lease which the environment of its stack names."""

    def validate(self) -> Any:
        result = super().validate()
        try:
            self._stack_lease()
        except hints.BadHint as error:
            raise exception.StackValidationFailed(message=f'{self.name}: {error}')
        return result

    def _stack_lease(self) -> str | None:
        """Return the id of the lease that the environment of the stack names."""
        request = reservation_request.parse(None, self.stack.env.param_defaults)
        return None if request is None else request.lease_id

    def handle_create(self) -> None:
        super().handle_create()
        lease_id = self._stack_lease()
        if lease_id is not None:
            self._join(lease_id)

    def _join(self, lease_id: str) -> None:
        """Add the floating IP to the lease of the stack, and the stack before it."""
        client, stack_id = self.client('climate'), self.stack.root_stack_id()
        leases.add_stack(client, lease_id, stack_id)
        try:
            client.leases.add_reservation(
                lease_id, resource_types.FLOATING_IP, self.resource_id, stack_id=stack_id
            )
        except exceptions.BadRequest as error:
            if error.code != _UNKNOWN_TYPE:
                raise
            # It is held all the same, and deleted with its stack.
            LOG.info('Lease %s cannot show floating IP %s: %s', lease_id, self.resource_id, error)
            return
        self.data_set(_LEASE_KEY, lease_id)

    def handle_delete(self) -> Any:
        result = super().handle_delete() if self.resource_id is not None else None
        lease_id = self.data().get(_LEASE_KEY)
        if lease_id is not None:
            self._leave(lease_id)
        return result

    def _leave(self, lease_id: str) -> None:
        """Take the floating IP, which is deleted, out of the lease if that goes on.

        Without an answer the lease service finds out by itself that it is gone.
        """
        client = self.client('climate')
        try:
            lease = leases.find(client, lease_id)
            for each in lease.reservations if leases.is_joinable(lease) else ():
                if leases.holds_reservation(each, self.resource_id):
                    client.leases.remove_reservation(lease_id, each.id)
        except (exceptions.NotFound, exceptions.Conflict):
            LOG.info('Lease %s ends floating IP %s itself', lease_id, self.resource_id)
        except ks_exceptions.ClientException as error:
            LOG.warning('Lease %s still has floating IP %s: %s', lease_id, self.resource_id, error)


TYPES = {'OS::Climate::HeldFloatingIP': HeldFloatingIP}
