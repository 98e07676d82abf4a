# SPDX-License-Identifier: Apache-2.0
"""``OS::Climate::FloatingIP``: a floating IP that the calendar allocates to a lease.

The lease service makes it in the project of the lease at its start, and deletes it at its end, so
heat does neither: it associates the floating IP with a port as soon as it exists, and takes the
port away from it when the resource is deleted. Before the start the resource is complete without
having done anything, and its address is known. Its stack joins the lease then, so that the lease
service updates the stack at the start, as it does to wake up servers.
"""

from typing import Any, Final

from heat.common import exception
from heat.engine import attributes, constraints, properties
from heat.engine.resources.openstack.neutron import floatingip

from climateclient import models
from heat_ext.lease import addresses
from heat_ext.lease import properties as lease_properties
from heat_ext.members import deferred_create, reservation_request
from heat_ext.service import leases

#: Statuses of a lease that does not know yet what it is promised.
_UNGRANTED: Final = frozenset(('WAITING', 'IN_PROGRESS'))

LEASE, INDEX = 'lease_id', 'index'
_Core = floatingip.FloatingIPAssociation
_S, _A = properties.Schema, attributes.Schema


def _attribute(description: str) -> attributes.Schema:
    # The lease service and users change it, so heat must not answer from its cache.
    return _A(description, type=_A.STRING, cache_mode=_A.CACHE_NONE)


class _Association(_Core):
    """Associates a floating IP that exists with a port."""

    entity = 'floatingip'
    ADDRESS, NETWORK = 'floating_ip_address', 'floating_network_id'
    properties_schema = {
        LEASE: _S(
            _S.STRING,
            'The lease to which the floating IP is allocated. Default: the lease of the stack, '
            f'{reservation_request.STACK_LEASE} of the environment.',
            constraints=[constraints.CustomConstraint('climate.lease')],
        ),
        ADDRESS: _S(
            _S.STRING,
            'Address of one of the floating IPs of the lease. Default: the property index.',
            constraints=[constraints.CustomConstraint('ip_addr')],
        ),
        INDEX: _S(
            _S.INTEGER,
            'Position of the floating IP in the lease, in the order in which it shows them.',
            default=0,
            constraints=[constraints.Range(min=0)],
        ),
        _Core.PORT_ID: _S(
            _S.STRING,
            'The port to associate the floating IP with as soon as it exists.',
            update_allowed=True,
            constraints=[constraints.CustomConstraint('neutron.port')],
        ),
        _Core.FIXED_IP_ADDRESS: _Core.properties_schema[_Core.FIXED_IP_ADDRESS],
    }
    attributes_schema = {
        ADDRESS: _attribute('The address, before the start of the lease, too.'),
        NETWORK: _attribute('The external network, before the start of the lease, too.'),
        _Core.PORT_ID: _attribute('The port that it is associated with.'),
        _Core.FIXED_IP_ADDRESS: _attribute('The address of that port that it stands for.'),
    }
    #: What neutron has of the floating IP, once it was found.
    _made: dict[str, Any] | None = None

    def validate(self) -> Any:
        # A value may still be unknown, as a reference to another resource.
        given = self.properties.data
        if given.get(self.PORT_ID) is None and given.get(self.FIXED_IP_ADDRESS) is not None:
            raise exception.ResourcePropertyDependency(
                prop1=self.FIXED_IP_ADDRESS, prop2=self.PORT_ID
            )
        if self._lease_id() is None:
            raise exception.StackValidationFailed(
                message=f'{LEASE}: must be given, or {reservation_request.STACK_LEASE} in the '
                'environment of the stack.'
            )
        return super().validate()

    def _lease_id(self) -> str | None:
        given = self.properties.data.get(LEASE)
        if given is None:
            default = self.stack.env.param_defaults.get(reservation_request.STACK_LEASE)
            return None if default is None else str(default)
        return str(self.properties[LEASE])

    def find_lease(self) -> models.Lease:
        """Return the lease.

        :raises heat.common.exception.Error: the project has no such lease
        """
        lease = leases.find(self.client('climate'), str(self._lease_id()))
        if lease is None:
            raise exception.Error(f'Lease {self._lease_id()} does not exist.')
        return lease

    def find_promised(self, lease: models.Lease) -> addresses.Promised | None:
        """Return what is allocated to the lease; None: it is not granted yet, or over.

        :raises heat.common.exception.Error: no such floating IP is allocated to it
        """
        wanted = self.properties[self.ADDRESS], self.properties[INDEX]
        found = addresses.choose(lease, *wanted)
        if found is None and lease.status not in _UNGRANTED and not _is_over(lease):
            raise exception.Error(addresses.refusal(lease, *wanted))
        return found

    def find_made(self) -> dict[str, Any] | None:
        """Return the floating IP as neutron has it; None: it does not exist yet, or any more."""
        if self._made is None:
            promised = self.find_promised(self.find_lease())
            if promised is not None and promised.is_made:
                # An earlier lease of the project may have had the same address.
                found = self.client().list_floatingips(
                    floating_network_id=promised.network_id,
                    floating_ip_address=promised.address,
                    tags=f'reservation:{promised.reservation_id}',
                )['floatingips']
                self._made = found[0] if found else None
        return self._made

    def handle_create(self) -> None:
        made = self.find_made()
        if made is None:
            raise exception.Error(f'The floating IP of lease {self._lease_id()} was deleted.')
        self._associate(made['id'])
        self.resource_id_set(made['id'])

    def check_create_complete(self, token: Any) -> bool:  # noqa: ARG002
        """Return True: neutron associates at once."""
        return True

    check_update_complete = check_create_complete

    def _associate(self, floating_ip_id: str) -> None:
        if self.properties[self.PORT_ID] is None:
            return
        names = (self.PORT_ID, self.FIXED_IP_ADDRESS)
        body = {name: self.properties[name] for name in names if self.properties[name] is not None}
        self.client().update_floatingip(floating_ip_id, {'floatingip': body})

    def handle_update(self, json_snippet: Any, tmpl_diff: Any, prop_diff: Any) -> None:  # noqa: ARG002
        if not prop_diff:
            return
        self.properties = json_snippet.properties(self.properties_schema, self.context)
        if self.properties[self.PORT_ID] is None:
            self._set_free(None)
        self._associate(self.resource_id)

    def handle_delete(self) -> None:
        """Take the port away from the floating IP, which is the lease's."""
        if self.resource_id is not None:
            self._set_free(self.properties[self.PORT_ID])

    def _set_free(self, port_id: str | None) -> None:
        """Take the port away from the floating IP.

        :param port_id: the port that it must have for this; None: any
        """
        with self.client_plugin().ignore_not_found:
            found = self._show_resource()
            if found[self.PORT_ID] and port_id in (None, found[self.PORT_ID]):
                body = {'floatingip': {self.PORT_ID: None}}
                self.client().update_floatingip(self.resource_id, body)

    def check_delete_complete(self, token: Any) -> bool:  # noqa: ARG002
        """Return True: that the floating IP is still there is the lease's affair."""
        return True


class FloatingIP(deferred_create.DeferredCreate, _Association):
    """A floating IP that a lease gets from the calendar, associated with a port at its start.

    The stack joins the lease if that has not started: it is updated at the start, and ends with
    the lease. A lease of another kind than ``immediate`` holds no stack: update the stack yourself
    after its start (``openstack stack update --existing``).
    """

    def must_wait(self) -> bool:
        return self.find_made() is None

    def required_ids(self) -> tuple[str | None, ...]:
        return ()

    def _defer(self) -> str:
        lease = self.find_lease()
        if lease.kind == lease_properties.IMMEDIATE:
            leases.add_stack(self.client('climate'), lease.id, self.stack.root_stack_id())
        return super()._defer()

    def needs_replace_failed(self) -> bool:
        """Return False for one that is deferred: the next update goes on with it."""
        return not self.is_deferred() and bool(super().needs_replace_failed())

    def handle_check(self) -> None:
        if self.resource_id is not None:
            self._show_resource()

    def _resolve_attribute(self, name: str) -> Any:
        if self.resource_id is not None:
            return super()._resolve_attribute(name)
        promised = self.find_promised(self.find_lease())
        if promised is None:
            return None
        known = {self.ADDRESS: promised.address, self.NETWORK: promised.network_id}
        return known.get(name)


def _is_over(lease: models.Lease) -> bool:
    return lease.status in ('TERMINATING', 'TERMINATED', 'DELETING')


TYPES = {'OS::Climate::FloatingIP': FloatingIP}
