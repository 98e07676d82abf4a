# SPDX-License-Identifier: Apache-2.0
"""Find the floating IPs that the calendar allocates to a lease.

They are known from the moment at which the lease is granted on, and exist in neutron from its
start on.
"""

import dataclasses

from climate_common import resource_types
from climateclient import models
from heat_ext.lease import reservations


@dataclasses.dataclass(frozen=True, slots=True)
class Promised:
    """A floating IP that is allocated to a lease.

    :param reservation_id: of the reservation that has it; neutron shows it as a tag
    :param is_made: whether the lease service has made it
    """

    address: str
    network_id: str
    reservation_id: str
    is_made: bool


def list_promised(lease: models.Lease) -> list[Promised]:
    """Return the floating IPs that are allocated to a lease, in the order in which it shows them.

    A floating IP that its owner had before has the id of one, and no network.
    """
    return [
        Promised(address, each.params['network_id'], each.id, each.status == 'active')
        for each in reservations.list_held(lease)
        if each.resource_type == resource_types.FLOATING_IP and 'network_id' in each.params
        for address in each.params.get('floatingips') or ()
    ]


def choose(lease: models.Lease, address: str | None, index: int) -> Promised | None:
    """Return one of the floating IPs that are allocated to a lease; None if it has no such one.

    :param address: which one; None: ``index`` says it
    :param index: its place among them, from 0
    """
    found = list_promised(lease)
    if address is not None:
        return next((each for each in found if each.address == address), None)
    return found[index] if index < len(found) else None


def refusal(lease: models.Lease, address: str | None, index: int) -> str:
    """Return the error for a floating IP that the lease does not have."""
    listed = ', '.join(each.address for each in list_promised(lease)) or 'none'
    wanted = f'floating_ip_address {address}' if address is not None else f'index {index}'
    return (
        f'{wanted}: lease {lease.id} has no such floating IP allocated, it has {listed}. Add one '
        f'to its reservations, with the type {resource_types.FLOATING_IP} and a network_id.'
    )
