# SPDX-License-Identifier: Apache-2.0
"""The RPC between climate-api and climate-manager, over oslo.messaging: both of its sides.

RPC is at most once, so nothing durable depends on it: the user repeats a lost call, which finds
the rows of the first one, and a lost hint costs nothing, since the manager that saved the rows
has notified its own engine without RPC.

A call is sent with the version of the interface that added it, so that an API can use managers of
an older release for all operations of that release. A new call or argument raises :data:`VERSION`
by a minor version, which the call then names. ``[upgrade_levels] manager`` limits what is sent.

A manager serves the methods that :mod:`climate_core.operations.remote` declares.
"""

import functools
import inspect
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

import oslo_messaging as messaging
from oslo_config import cfg
from oslo_log import log

from climate_core import exceptions
from climate_core.concurrency import ReservingLimit, check_deadline, deadline
from climate_core.context import RequestContext, RpcSerializer
from climate_core.db.engine import DATABASE_ERRORS, Stale, error_for_user
from climate_core.engine.scheduler import Wakeups
from climate_core.operations.create import LeaseCreator
from climate_core.operations.feeds import FeedOperations
from climate_core.operations.leases import LeaseOperations
from climate_core.operations.remote import Remote, list_remote
from climate_core.threads import received_at

LOG = log.getLogger(__name__)

TOPIC: Final = 'climate.manager'
#: The newest version of the interface, which managers of this release serve.
VERSION: Final = '1.0'

P = ParamSpec('P')
T = TypeVar('T')

#: Seconds after a reply of a manager in which the client sends no ping.
_ALIVE_SECONDS: Final = 10.0
#: Seconds in which a manager must answer a ping.
_PING_SECONDS: Final = 10
_NO_MANAGER: Final = (
    'No climate-manager answers, so leases can be read, but nothing can be changed. Nothing was '
    'done; try again later.'
)
_NO_ANSWER: Final = (
    'The climate-manager does not answer. The request may still take effect: check its result '
    'before you repeat it.'
)
_TOO_NEW = (
    'This needs a newer lease manager, and the service is being upgraded. Try again when the '
    'upgrade is finished.'
)


def open_transport(conf: cfg.ConfigOpts) -> messaging.Transport:
    """Open the RPC transport of ``transport_url``; it carries the exceptions of Climate."""
    return messaging.get_rpc_transport(conf, allowed_remote_exmods=[exceptions.__name__])


def _rpc_method(
    operation: Callable[Concatenate[Any, RequestContext, P], T],
    version: str = '1.0',
) -> Callable[Concatenate['ManagerClient', RequestContext, P], T]:
    """Return a method of the client that calls an operation of the manager.

    :param version: the version of the interface that added the operation
    """
    signature = inspect.signature(operation)

    @functools.wraps(operation)
    def method(
        self: 'ManagerClient', context: RequestContext, /, *args: P.args, **kw: P.kwargs
    ) -> T:
        bound = signature.bind(self, context, *args, **kw).arguments
        arguments = {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in list(bound.items())[2:]
            if value is not None
        }
        return cast(T, self._call(context, version, operation.__name__, arguments))

    return method


class ManagerClient:
    """The operations of the manager, as methods with the same signatures.

    Every method raises what the operation raises, and
    :class:`climate_core.exceptions.ServiceUnavailable` when no manager answers in time, or when
    ``[upgrade_levels] manager`` is older than the operation.

    A call stays in the queue of the bus until a manager receives it, perhaps a manager that is
    started after the caller has timed out. So no call is sent if no manager is running.
    """

    def __init__(
        self, conf: cfg.ConfigOpts, transport_: messaging.Transport | None = None
    ) -> None:
        target, serializer = messaging.Target(topic=TOPIC, version='1.0'), RpcSerializer()
        self._client = messaging.get_rpc_client(
            transport_ or open_transport(conf),
            target,
            version_cap=conf.upgrade_levels.manager,
            serializer=serializer,
        )
        # oslo.messaging has registered the option by now.
        serializer.reply_seconds = conf.rpc_response_timeout
        self._ping_seconds = min(_PING_SECONDS, conf.rpc_response_timeout)
        self._alive_until = 0.0

    create_lease = _rpc_method(LeaseCreator.create_lease)
    check_lease = _rpc_method(LeaseOperations.check_lease)
    find_windows = _rpc_method(LeaseOperations.find_windows)
    update_lease = _rpc_method(LeaseOperations.update_lease)
    delete_lease = _rpc_method(LeaseOperations.delete_lease)
    start_lease = _rpc_method(LeaseOperations.start_lease)
    end_lease = _rpc_method(LeaseOperations.end_lease)
    add_reservation = _rpc_method(LeaseCreator.add_reservation)
    update_reservation = _rpc_method(LeaseOperations.update_reservation)
    remove_reservation = _rpc_method(LeaseOperations.remove_reservation)
    create_feed = _rpc_method(FeedOperations.create_feed)
    feed_roles = _rpc_method(FeedOperations.feed_roles)
    delete_feed = _rpc_method(FeedOperations.delete_feed)

    def call(
        self,
        operation: Callable[Concatenate[Any, RequestContext, P], T],
        context: RequestContext,
        /,
        *args: P.args,
        **kw: P.kwargs,
    ) -> T:
        """Call an operation of a reservation package, as ``HostOperations.create_host``."""
        return _rpc_method(operation)(self, context, *args, **kw)

    def nudge(self, context: RequestContext) -> None:
        """Notify every manager to poll due events, without a reply; the hint may be lost."""
        self._client.prepare(fanout=True).cast(context, 'nudge')

    def _call(
        self, context: RequestContext, version: str, method: str, arguments: Mapping[str, Any]
    ) -> Any:
        client = self._client.prepare(version=version)
        if not client.can_send_version(version):
            raise exceptions.ServiceUnavailable(_TOO_NEW)
        try:
            self._ping(context)
            answer = client.call(context, method, **arguments)
            self._alive_until = time.monotonic() + _ALIVE_SECONDS
            return answer
        except (messaging.MessagingTimeout, messaging.MessageDeliveryFailure):
            self._alive_until = 0.0
            raise exceptions.ServiceUnavailable(_NO_ANSWER)
        except messaging.UnsupportedVersion:
            raise exceptions.ServiceUnavailable(_TOO_NEW)
        except messaging.RemoteError as exc:
            # What comes over a real bus has lost its class.
            if exc.exc_type != messaging.UnsupportedVersion.__name__:
                raise
            raise exceptions.ServiceUnavailable(_TOO_NEW)

    def _ping(self, context: RequestContext) -> None:
        """Check that a manager answers, unless one has answered a short time ago."""
        if time.monotonic() < self._alive_until:
            return
        client = self._client.prepare(timeout=self._ping_seconds)
        try:
            client.call(context, 'ping')
        except (messaging.MessagingTimeout, messaging.MessageDeliveryFailure):
            raise exceptions.ServiceUnavailable(_NO_MANAGER)
        self._alive_until = time.monotonic() + _ALIVE_SECONDS


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
    target = messaging.Target(topic=TOPIC, version=VERSION, server=host)
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
    """The methods of operations that RPC serves, in :data:`VERSION`.

    :param operations: an object with methods that :mod:`climate_core.operations.remote` declares
    :param wakeups: notifies the engines after a write that may be due
    """

    target = messaging.Target(version=VERSION)

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

    target = messaging.Target(version=VERSION)

    def __init__(self, wakeups: Wakeups) -> None:
        self._wakeups = wakeups

    def ping(self, context: RequestContext) -> None:
        """Reply, to show that a manager is running."""

    def nudge(self, context: RequestContext) -> None:
        """Notify the workers: another manager has committed a change."""
        self._wakeups.take_hint(context)
