# SPDX-License-Identifier: Apache-2.0
"""The RPC client of climate-api: calls and one hint, over oslo.messaging.

RPC is at most once, so nothing durable depends on it: the user repeats a lost call, which finds
the rows of the first one, and a lost hint costs nothing, since the manager that saved the rows
has notified its own engine without RPC.

A call is sent with the version of the interface that added it, so that an API can use managers of
an older release for all operations of that release. A new call or argument raises :data:`VERSION`
by a minor version, which the call then names. ``[upgrade_levels] manager`` limits what is sent.
"""

import functools
import inspect
import time
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

import oslo_messaging as messaging
from oslo_config import cfg

from climate_core import exceptions
from climate_core.context import RequestContext, RpcSerializer
from climate_core.operations.create import LeaseCreator
from climate_core.operations.feeds import FeedOperations
from climate_core.operations.leases import LeaseOperations

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
