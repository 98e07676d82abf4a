# SPDX-License-Identifier: Apache-2.0
"""Do what operators ask of floating IPs: set addresses apart for leases, and give them back.

Neutron is only asked, with the rights of the service: that others do not get an address is seen to
by the operator, who keeps it out of the allocation pools.
"""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import orm

from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.context import RequestContext
from climate_core.db.engine import Database
from climate_core.operations.operator_registration import (
    check_unallocated,
    check_unregistered,
    reject_duplicates,
    require_services,
)
from climate_core.operations.services import ServiceConnector
from climate_networks.cloud import floatingips as cloud_floatingips
from climate_networks.db import floatingips as db
from climate_networks.domain import floatingips

if TYPE_CHECKING:
    from climate_core.cloud import connections


@dataclasses.dataclass
class FloatingIpOperations:
    """Do what operators ask of floating IPs."""

    database: Database
    cloud: ServiceConnector

    def create_floatingips(
        self,
        context: RequestContext,  # noqa: ARG002
        values: Mapping[str, Any],
    ) -> list[int]:
        """Set addresses of an external network apart for leases, all of them or none.

        :param values: ``floating_network_id``, and ``floating_ip_address`` or
            ``floating_ip_range``
        :returns: their ids, in the order of the addresses
        :raises climate_core.exceptions.BadRequest: naming the field
        :raises climate_core.exceptions.FloatingIpInUse: a port has one of them
        :raises climate_core.exceptions.FloatingIpExists: one is set apart already
        :raises climate_core.exceptions.ServiceUnavailable: Neutron does not answer, or does not
            let the service user ask
        """
        field, addresses = floatingips.read_addresses(dict(values))
        network_id = values['floating_network_id']
        there = self.database.read(db.registered, network_id, map(str, addresses))
        check_unregistered(exceptions.FloatingIpExists, field, there)
        conn = self.cloud.service()
        with require_services():
            _check_network(conn, network_id)
            subnets = cloud_floatingips.list_subnets(conn, network_id)
            found = {
                str(each): floatingips.check_address(each, subnets, field) for each in addresses
            }
            used = cloud_floatingips.used_addresses(conn, network_id, found)
        if used:
            address, owner = min(used.items())
            raise exceptions.FloatingIpInUse(
                f'{field}: {address} is in use in Neutron ({owner}). Free it first.', field=field
            )
        with reject_duplicates(exceptions.FloatingIpExists, field, len(found)):
            return self.database.write(db.insert, network_id, found)

    def delete_floatingip(self, context: RequestContext, floating_ip_id: int) -> None:  # noqa: ARG002
        """Give an address back; nothing is changed in Neutron.

        :raises climate_core.exceptions.FloatingIpNotFound: there is none
        :raises climate_core.exceptions.FloatingIpInUse: it is promised to reservations
        """
        self.database.write(_delete, floating_ip_id)


def _check_network(conn: 'connections.Connection', network_id: str) -> None:
    """Refuse a network that is not there, or has no floating IPs."""
    field = 'floating_network_id'
    try:
        network = cloud_floatingips.get_network(conn, network_id)
    except errors.Gone as exc:
        raise exceptions.ResourceNotFound(
            f'{field}: there is no network {network_id}.', field=field
        ) from exc
    if not network.get('router:external'):
        raise exceptions.BadRequest(
            f'{field}: must be an external network, and {network["name"]} is none.', field=field
        )


def _delete(session: orm.Session, floating_ip_id: int) -> None:
    one = db.get(session, floating_ip_id, lock=True)
    name = f'Floating IP {one.address}'
    check_unallocated(session, floating_ip_id, name, exceptions.FloatingIpInUse)
    db.delete(session, floating_ip_id)
