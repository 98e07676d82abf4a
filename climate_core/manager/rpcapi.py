# SPDX-License-Identifier: Apache-2.0
"""How the API asks the manager: four calls and one hint, over oslo.messaging.

RPC is at most once, so nothing durable depends on it: a call that was lost is made again by the
user and finds what the first one wrote, and a lost hint costs nothing, since the manager that
wrote the rows has told its own engine without RPC.
"""

from collections.abc import Mapping
from typing import Any

import oslo_messaging as messaging
from oslo_config import cfg

from climate_core import exceptions
from climate_core.context import RequestContext, RpcSerializer

TOPIC = 'climate.manager'
VERSION = '1.0'


def transport(conf: cfg.ConfigOpts) -> messaging.Transport:
    """Open the RPC transport of ``transport_url``; our exceptions come back as they are."""
    return messaging.get_rpc_transport(conf, allowed_remote_exmods=[exceptions.__name__])


class ManagerClient:
    """What the API can ask.

    All values are JSON types. Dates are texts as the user wrote them: the manager reads them, see
    :func:`climate_core.lease.dates.parse`, so that "now" is the database's now. Every method
    raises what :mod:`climate_core.exceptions` has, and
    :class:`climate_core.exceptions.ServiceUnavailable` when no manager answers in time.
    """

    def __init__(
        self, conf: cfg.ConfigOpts, transport_: messaging.Transport | None = None
    ) -> None:
        target = messaging.Target(topic=TOPIC, version=VERSION)
        self._client = messaging.get_rpc_client(
            transport_ or transport(conf), target, serializer=RpcSerializer()
        )

    def create_lease(self, context: RequestContext, values: Mapping[str, Any]) -> str:
        """Make a lease.

        :param values: ``name``, ``end_date``; perhaps ``id``, ``start_date`` (default now),
            ``before_end_date``, ``reservations`` (each ``resource_type`` and what its plugin
            takes), ``events`` (each ``event_type`` and ``time``)
        :returns: the id of the lease, which may have been there before
        """
        return str(self._call(context, 'create_lease', values=dict(values)))

    def update_lease(
        self,
        context: RequestContext,
        lease_id: str,
        values: Mapping[str, Any],
        generation: int | None = None,
    ) -> str:
        """Change ``name``, ``start_date``, ``end_date``, ``before_end_date`` of a lease.

        :param generation: refuse with GenerationConflict unless the lease still has this one
        :returns: the id of the lease
        """
        return str(
            self._call(
                context,
                'update_lease',
                lease_id=lease_id,
                values=dict(values),
                generation=generation,
            )
        )

    def delete_lease(self, context: RequestContext, lease_id: str) -> None:
        """Free what the lease holds and delete it."""
        self._call(context, 'delete_lease', lease_id=lease_id)

    def add_reservation(
        self, context: RequestContext, lease_id: str, values: Mapping[str, Any]
    ) -> str:
        """Add a resource to a lease.

        :param values: ``resource_type`` and what its plugin takes
        :returns: the id of the reservation, which may have been there before
        """
        return str(self._call(context, 'add_reservation', lease_id=lease_id, values=dict(values)))

    def nudge(self, context: RequestContext) -> None:
        """Hint every manager to look at what is due. Does not wait, and may be lost."""
        self._client.prepare(fanout=True).cast(context, 'nudge')

    def _call(self, context: RequestContext, method: str, **kw: Any) -> Any:
        try:
            return self._client.call(context, method, **kw)
        except (messaging.MessagingTimeout, messaging.MessageDeliveryFailure):
            raise exceptions.ServiceUnavailable('The lease manager does not answer. Try again.')
