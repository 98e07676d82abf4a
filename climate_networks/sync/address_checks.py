# SPDX-License-Identifier: Apache-2.0
"""Check that Neutron gives the floating IPs that are set apart for leases to nobody else."""

import ipaddress
from itertools import groupby
from typing import TYPE_CHECKING, Final

from climate_core import exceptions
from climate_core.db.engine import Database
from climate_networks.cloud import floatingips as cloud
from climate_networks.db import floatingips as db
from climate_networks.db import registered_units
from climate_networks.domain import floatingips

if TYPE_CHECKING:
    from climate_core.cloud import connections

#: What Neutron does not tell.
UNSEEN: Final = (
    "Neutron's policy cannot be seen from here. Without the lines for its policy.yaml that are in "
    'the documents (Floating IPs, for operators) the manager of any project can create a floating '
    'IP with an address that is set apart for leases, and owners can change the tags by which '
    'Climate finds the floating IPs of leases.'
)


def find(database: Database, conn: 'connections.Connection') -> list[str] | None:
    """Return what is wrong with addresses that are set apart, one call for each network.

    :returns: None if there are none
    :raises climate_core.exceptions.PluginFailure: Neutron does not answer, or refuses it
    """
    every = registered_units.every(database, db.page, db.FloatingIpQuery())
    known = sorted(every, key=lambda each: each.network_id)
    if not known:
        return None
    found = []
    for network_id, group in groupby(known, lambda each: each.network_id):
        subnets = cloud.list_subnets(conn, network_id)
        for each in group:
            try:
                floatingips.check_address(
                    ipaddress.IPv4Address(each.address), subnets, f'Floating IP {each.address}'
                )
            except exceptions.BadRequest as exc:
                found.append(exc.message)
    return found
