# SPDX-License-Identifier: Apache-2.0
"""How the API asks the manager: calls and one hint, over oslo.messaging.

RPC is at most once, so nothing durable depends on it: a call that was lost is made again by the
user and finds what the first one wrote, and a lost hint costs nothing, since the manager that
wrote the rows has told its own engine without RPC.

Version 1.0 is what the first release answers. 1.1 adds ``check_lease``, ``start_lease``,
``end_lease``, ``update_reservation``, ``remove_reservation``, a generation to ``delete_lease`` and
``add_reservation``, and more fields to the values of the others. A reservation without the id of a
resource needs it: a manager of 1.0 does not know the event that prepares what is made. Each call
is sent with the lowest version that has what it needs, so that releases of two ages understand
each other in what both can.
"""

from collections.abc import Mapping
from typing import Any

import oslo_messaging as messaging
from oslo_config import cfg

from climate_core import exceptions
from climate_core.context import RequestContext, RpcSerializer

TOPIC = 'climate.manager'
VERSION = '1.1'

_FIRST = '1.0'
#: What a manager of 1.0 reads of a new lease, and of a change; the rest it would overlook.
_CREATE = frozenset(
    {
        'id',
        'name',
        'start_date',
        'end_date',
        'before_end_date',
        'before_end_notification',
        'reservations',
        'events',
        # Overlooked by 1.0, which lets resources join without it.
        'may_join',
    }
)
_UPDATE = frozenset({'name', 'start_date', 'end_date', 'before_end_date'})


def transport(conf: cfg.ConfigOpts) -> messaging.Transport:
    """Open the RPC transport of ``transport_url``; our exceptions come back as they are."""
    return messaging.get_rpc_transport(conf, allowed_remote_exmods=[exceptions.__name__])


class ManagerClient:
    """What the API can ask.

    All values are JSON types. Dates are texts as the user wrote them: the manager reads them, see
    :func:`climate_common.dates.parse`, so that "now" is the database's now. Every method
    raises what :mod:`climate_core.exceptions` has, and
    :class:`climate_core.exceptions.ServiceUnavailable` when no manager answers in time, or when
    ``[upgrade_levels] manager`` keeps back what is asked.

    Where a ``generation`` is taken, a lease that has another one by now is refused with
    :class:`climate_core.exceptions.GenerationConflict`.
    """

    def __init__(
        self, conf: cfg.ConfigOpts, transport_: messaging.Transport | None = None
    ) -> None:
        target = messaging.Target(topic=TOPIC, version=_FIRST)
        self._client = messaging.get_rpc_client(
            transport_ or transport(conf),
            target,
            version_cap=conf.upgrade_levels.manager,
            serializer=RpcSerializer(),
        )

    def create_lease(self, context: RequestContext, values: Mapping[str, Any]) -> str:
        """Make a lease.

        :param values: ``name``, ``end_date`` or ``duration``; perhaps ``id``, ``start_date``
            (default now), ``before_end_date``, ``reservations`` (each ``resource_type`` and what
            its plugin takes), ``events`` (each ``event_type`` and ``time``), ``start_policy``,
            ``before_start``, ``webhook``
        :returns: the id of the lease, which may have been there before
        """
        stacks = any(map(_is_made, values.get('reservations') or ()))
        version = VERSION if stacks else _version(values, _CREATE)
        return str(self._call(context, version, 'create_lease', values=dict(values)))

    def check_lease(self, context: RequestContext, values: Mapping[str, Any]) -> dict[str, Any]:
        """Tell what would become of :meth:`create_lease`; nothing is written.

        :param values: as there
        """
        return dict(self._call(context, VERSION, 'check_lease', values=dict(values)))

    def update_lease(
        self,
        context: RequestContext,
        lease_id: str,
        values: Mapping[str, Any],
        generation: int | None = None,
    ) -> str:
        """Change a lease.

        :param values: any of ``name``, ``start_date``, ``end_date``, ``duration``,
            ``before_end_date``, ``start_policy``, ``before_start``, ``webhook`` (None takes it
            away), ``events`` (in place of those that were given), ``reservations`` (each ``id``
            and what changes)
        :returns: the id of the lease
        """
        return str(
            self._call(
                context,
                _version(values, _UPDATE),
                'update_lease',
                lease_id=lease_id,
                values=dict(values),
                generation=generation,
            )
        )

    def delete_lease(
        self, context: RequestContext, lease_id: str, generation: int | None = None
    ) -> None:
        """Free what the lease holds and delete it."""
        if generation is None:
            self._call(context, _FIRST, 'delete_lease', lease_id=lease_id)
        else:
            self._call(context, VERSION, 'delete_lease', lease_id=lease_id, generation=generation)

    def start_lease(
        self, context: RequestContext, lease_id: str, generation: int | None = None
    ) -> None:
        """Start a lease that waits for its user."""
        self._call(context, VERSION, 'start_lease', lease_id=lease_id, generation=generation)

    def end_lease(
        self, context: RequestContext, lease_id: str, generation: int | None = None
    ) -> None:
        """Free what the lease holds now; it stays readable."""
        self._call(context, VERSION, 'end_lease', lease_id=lease_id, generation=generation)

    def add_reservation(
        self,
        context: RequestContext,
        lease_id: str,
        values: Mapping[str, Any],
        generation: int | None = None,
    ) -> str:
        """Add a resource to a lease.

        :param values: ``resource_type`` and what its plugin takes
        :returns: the id of the reservation, which may have been there before, whatever the
            generation is then
        """
        kw: dict[str, Any] = {'lease_id': lease_id, 'values': dict(values)}
        if generation is not None:
            kw['generation'] = generation
        version = _FIRST if generation is None and not _is_made(values) else VERSION
        return str(self._call(context, version, 'add_reservation', **kw))

    def update_reservation(
        self,
        context: RequestContext,
        lease_id: str,
        reservation_id: str,
        values: Mapping[str, Any],
        generation: int | None = None,
    ) -> str:
        """Change what the plugin of a reservation lets change.

        :returns: the id of the reservation
        """
        return str(
            self._call(
                context,
                VERSION,
                'update_reservation',
                lease_id=lease_id,
                reservation_id=reservation_id,
                values=dict(values),
                generation=generation,
            )
        )

    def remove_reservation(
        self,
        context: RequestContext,
        lease_id: str,
        reservation_id: str,
        generation: int | None = None,
    ) -> None:
        """Free a resource and take it out of a lease that goes on."""
        self._call(
            context,
            VERSION,
            'remove_reservation',
            lease_id=lease_id,
            reservation_id=reservation_id,
            generation=generation,
        )

    def nudge(self, context: RequestContext) -> None:
        """Hint every manager to look at what is due. Does not wait, and may be lost."""
        self._client.prepare(fanout=True).cast(context, 'nudge')

    def _call(self, context: RequestContext, version: str, method: str, **kw: Any) -> Any:
        client = self._client.prepare(version=version)
        if not client.can_send_version(version):
            raise exceptions.ServiceUnavailable(_TOO_NEW)
        try:
            return client.call(context, method, **kw)
        except (messaging.MessagingTimeout, messaging.MessageDeliveryFailure):
            raise exceptions.ServiceUnavailable('The lease manager does not answer. Try again.')
        except messaging.UnsupportedVersion:
            raise exceptions.ServiceUnavailable(_TOO_NEW)
        except messaging.RemoteError as exc:
            # What comes over a real bus has lost its class.
            if exc.exc_type != messaging.UnsupportedVersion.__name__:
                raise
            raise exceptions.ServiceUnavailable(_TOO_NEW)


_TOO_NEW = (
    'This needs a newer lease manager, and the service is being upgraded. Try again when the '
    'upgrade is finished.'
)


def _version(values: Mapping[str, Any], first: frozenset[str]) -> str:
    return _FIRST if values.keys() <= first else VERSION


def _is_made(reservation: Mapping[str, Any]) -> bool:
    """Tell whether the manager makes the resource of a reservation."""
    return 'resource_id' not in reservation
