# SPDX-License-Identifier: Apache-2.0
"""The switch of the local cloud: every port on every host can be bound, and is up at once.

ML2 needs a driver that binds, and those in neutron's tree want a running agent. This one stands
for the network hardware, as nova's fake virt driver stands for the hypervisor.
"""

from neutron.db.models import port_forwarding  # noqa: F401
from neutron.services.trunk.drivers import base as trunk
from neutron_lib import constants
from neutron_lib.api.definitions import portbindings
from neutron_lib.plugins.ml2 import api
from neutron_lib.services.trunk import constants as trunks
from sqlalchemy import orm


class TestTrunks(trunk.DriverBase):
    """Carry the trunks of the switch: there is nothing to do."""

    @property
    def is_loaded(self):
        return True


class TestSwitch(api.MechanismDriver):
    """Bind a port to its first segment."""

    def initialize(self):
        """Offer trunks to the service plugin, and make SQLAlchemy complete neutron's models.

        neutron 29 reads ``Port.port_forwardings`` in a listing of ports before its first query.
        Until then that back reference does not exist, and the listing is a 500 if it is the very
        first request of a process (neutron/db/db_base_plugin_v2.py, get_ports).
        """
        orm.configure_mappers()
        TestTrunks('test_switch', (portbindings.VIF_TYPE_OVS,), (trunks.SEGMENTATION_TYPE_VLAN,))

    def bind_port(self, context):
        for segment in context.segments_to_bind:
            context.set_binding(
                segment[api.ID],
                portbindings.VIF_TYPE_OVS,
                {portbindings.CAP_PORT_FILTER: True},
                status=constants.PORT_STATUS_ACTIVE,
            )
            return
