# SPDX-License-Identifier: Apache-2.0
"""``virtual:floatingip`` with a ``resource_id``: a floating IP that its owner has already.

It joins a lease as a server or a volume does, and is ended with it. What the calendar promises has
no id before its start, so an id in the request tells the two apart; each has a type of its own in
the database, as room by sizes has one beside servers, because all that is done with them differs.

Neutron gives such an address from its pools and counts it from then on, and it can be associated
before the start: there is nothing to wake. So the end action is done as well if the lease never
started, which frees a server in every case: nothing that its owner wants to keep is deleted. It is
known by its id alone, and what has its address later belongs to others.
"""

import datetime
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from climate_common import amounts, resource_types
from climate_core import exceptions
from climate_core.cloud import errors, neutron
from climate_core.plugins import parent_stacks, prebuilt_plugin
from climate_core.plugins.base import PollAgain, ReservedResource
from climate_core.plugins.step_context import EndContext, StepContext
from climate_networks.cloud import floatingips
from climate_networks.domain import marks

if TYPE_CHECKING:
    from climate_core.cloud import connections
    from climate_core.context import RequestContext
    from climate_core.lease.model import Reservation

_CHOICES = [
    ('delete', 'Delete it, also while it is associated or has port forwardings.'),
    ('nothing', 'Leave it as it is.'),
]


class HeldFloatingIpPlugin(prebuilt_plugin.PrebuiltPlugin):
    """Hold floating IPs that are there."""

    resource_type = resource_types.HELD_FLOATING_IP
    title = 'Floating IP of its owner'
    service = 'neutron'
    description = 'A floating IP that you have, which is deleted at the end of its lease.'
    options = (prebuilt_plugin.on_end_option(_CHOICES, 'floating IP of its owner'),)
    schema: ClassVar[Mapping[str, Any]] = {
        **prebuilt_plugin.end_action_schema(_CHOICES),
        **parent_stacks.STACK_ID_SCHEMA,
    }
    # Servers and stacks use addresses: they are there before them, and are gone after them.
    rank = 3
    calls: ClassVar[Any] = floatingips
    gone = 'The floating IP was deleted'

    def reserve(self, context: 'RequestContext', values: Mapping[str, Any]) -> ReservedResource:
        # As Neutron writes it.
        wanted = str(uuid.UUID(values['resource_id']))
        with errors.for_user('resource_id'):
            found = floatingips.get(self.cloud.user(context), wanted)
            if found['project_id'] != context.project_id:
                raise errors.Gone(f'There is no floating IP {wanted} in this project.')
        if marks.is_marked(found):
            raise exceptions.BadRequest(
                f'The floating IP {wanted} was made for a lease and ends with that. Only one that '
                'you have made yourself can be reserved.',
                field='resource_id',
            )
        shown = {'floatingips': [found['floating_ip_address']]}
        return ReservedResource(
            wanted,
            {**self._params(values), **shown},
            {amounts.FLOATING_IPS: 1},
            parent_id=values.get(parent_stacks.STACK_ID_KEY),
        )

    def blocks(self, own: 'Reservation', other: 'Reservation') -> bool:  # noqa: ARG002
        """Block stacks, whose templates may use it. Servers get addresses after their start."""
        return other.resource_type == resource_types.STACK

    def _wake(self, context: StepContext, found: Mapping[str, Any]) -> PollAgain | None:
        """Do nothing: that it is there was all there is to find out."""

    def _end(self, context: EndContext, found: Mapping[str, Any]) -> PollAgain | None:  # noqa: ARG002
        if context.on_end == 'delete':
            floatingips.delete(context.conn, context.resource_id)
        return None

    def _seen(
        self,
        conn: 'connections.Connection',
        ids: Collection[str],
        listed: Callable[[], set[str]],  # noqa: ARG002
    ) -> set[str]:
        # Those of leases are few among all that a cloud has.
        return neutron.find_existing(conn, 'floatingip', ids)

    def _reserved_since(self, found: Mapping[str, Any]) -> datetime.datetime | None:  # noqa: ARG002
        return None
