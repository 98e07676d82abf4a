# SPDX-License-Identifier: Apache-2.0
"""The RPC server of climate-manager.

It serves the methods that :mod:`climate_core.operations.remote` declares.
"""

import functools
from collections.abc import Callable, Collection, Iterable
from typing import Any

import oslo_messaging as messaging
from oslo_log import log

from climate_core import exceptions
from climate_core.concurrency import ReservingLimit, check_deadline, deadline
from climate_core.context import RequestContext, RpcSerializer
from climate_core.db.engine import DATABASE_ERRORS, Stale, error_for_user
from climate_core.engine.scheduler import Wakeups
from climate_core.operations.remote import Remote, list_remote
from climate_core.rpc import client
from climate_core.threads import received_at

LOG = log.getLogger(__name__)


def create_server(
    transport: messaging.Transport,
    host: str,
    operations: Iterable[object],
    wakeups: Wakeups,
    local_types: Collection[str] = (),
) -> messaging.MessageHandlingServer:
    """Return a server that is not started.

    :param host: the name by which this one manager can be called
    :param operations: objects with methods that :mod:`climate_core.operations.remote` declares
    :param local_types: those whose reservation calls no service
    """
    target = messaging.Target(topic=client.TOPIC, version=client.VERSION, server=host)
    endpoints = [Endpoint(operation, wakeups) for operation in operations]
    made = messaging.get_rpc_server(
        transport,
        target,
        [ManagerEndpoint(wakeups), *endpoints],
        executor='threading',
        serializer=RpcSerializer(),
        access_policy=messaging.DefaultRPCAccessPolicy,
    )
    # oslo.messaging has registered the option by now.
    most = max(1, made.conf.executor_thread_pool_size // 2)
    reserving = ReservingLimit(most, local_types)
    for endpoint in endpoints:
        endpoint.reserving = reserving
    return made


def _reply_by(context: RequestContext) -> float | None:
    """Return when the caller times out; None if that is unknown.

    The time that the message was on the bus is not known. RabbitMQ drops it if the caller times
    out before it is delivered.
    """
    seconds = context.reply_seconds
    return received_at() + seconds if isinstance(seconds, (int, float)) else None


class Endpoint:
    """The methods of operations that RPC serves, in :data:`climate_core.rpc.client.VERSION`.

    :param operations: an object with methods that :mod:`climate_core.operations.remote` declares
    :param wakeups: notifies the engines after a write that may be due
    """

    target = messaging.Target(version=client.VERSION)

    def __init__(self, operations: object, wakeups: Wakeups) -> None:
        self.reserving = ReservingLimit(None)
        self._operations = operations
        self._wakeups = wakeups
        for name, operation, how in list_remote(type(operations)):
            setattr(self, name, functools.partial(self._serve, operation, how))

    def _serve(
        self,
        operation: Callable[..., Any],
        how: Remote,
        context: RequestContext,
        *args: Any,
        **kw: Any,
    ) -> Any:
        """Call an operation; errors of users are returned, other errors are also logged."""
        try:
            if not how.is_allowed(context):
                raise exceptions.Forbidden(
                    f'{operation.__name__}: the API has not enforced the policy for this request.'
                )
            values: Any = kw.get('values', {}) if how.reserves else {}
            with deadline(_reply_by(context)), self.reserving.turn(context, values):
                check_deadline()
                result = operation(self._operations, context, *args, **kw)
        except exceptions.ClimateError as exc:
            raise messaging.ExpectedException from exc
        except Stale as exc:
            LOG.warning('Concurrent changes of a lease exhausted the retries', exc_info=True)
            raise error_for_user(exc) or exc
        except DATABASE_ERRORS as exc:
            LOG.exception('The database failed')
            raise error_for_user(exc) or exc
        if how.writes:
            self._wakeups.wake_all()
        return result


class ManagerEndpoint:
    """The ping of clients, and the hints of managers."""

    target = messaging.Target(version=client.VERSION)

    def __init__(self, wakeups: Wakeups) -> None:
        self._wakeups = wakeups

    def ping(self, context: RequestContext) -> None:
        """Reply, to show that a manager is running."""

    def nudge(self, context: RequestContext) -> None:
        """Notify the workers: another manager has committed a change."""
        self._wakeups.take_hint(context)
