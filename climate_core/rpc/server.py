# SPDX-License-Identifier: Apache-2.0
"""The RPC server of climate-manager.

Its methods have the signatures of :class:`climate_core.operations.leases.LeaseOperations`,
:class:`climate_core.operations.hosts.HostOperations`,
:class:`climate_core.operations.floatingips.FloatingIpOperations`,
:class:`climate_core.operations.networks.NetworkOperations` and
:class:`climate_core.operations.feeds.FeedOperations`.
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import oslo_messaging as messaging
from oslo_log import log

from climate_core import exceptions
from climate_core.concurrency import ReservingLimit
from climate_core.context import RpcSerializer
from climate_core.db.engine import TROUBLE, Stale
from climate_core.operations.feeds import FeedOperations
from climate_core.operations.floatingips import FloatingIpOperations
from climate_core.operations.hosts import HostOperations
from climate_core.operations.leases import LeaseOperations
from climate_core.operations.networks import NetworkOperations
from climate_core.rpc import client

if TYPE_CHECKING:
    from climate_core.context import RequestContext

LOG = log.getLogger(__name__)

P = ParamSpec('P')
T = TypeVar('T')

_Operation = Callable[Concatenate[Any, 'RequestContext', P], T]
_Method = Callable[Concatenate['_Served', 'RequestContext', P], T]


def make(
    transport: messaging.Transport, host: str, endpoint: 'LeaseEndpoint', *more: '_Served'
) -> messaging.MessageHandlingServer:
    """Return a server that is not started.

    :param host: the name by which this one manager can be called
    :param more: further sets of methods
    """
    target = messaging.Target(topic=client.TOPIC, version=client.VERSION, server=host)
    made = messaging.get_rpc_server(
        transport,
        target,
        [endpoint, *more],
        executor='threading',
        serializer=RpcSerializer(),
        access_policy=messaging.DefaultRPCAccessPolicy,
    )
    # oslo.messaging has registered the option by now.
    endpoint.reserving = ReservingLimit(max(1, made.conf.executor_thread_pool_size // 2))
    return made


def _reads(operation: _Operation[P, T], reserves: bool = False) -> _Method[P, T]:
    """Make a method of the server of an operation.

    What a user did wrong goes back as it is, the rest is logged too.

    :param reserves: whether plugins ask other services about its resources
    """

    @functools.wraps(operation)
    def method(self: '_Served', context: 'RequestContext', /, *args: P.args, **kw: P.kwargs) -> T:
        try:
            values: Any = kw.get('values', {}) if reserves else {}
            with self.reserving.turn(context, values):
                return operation(self._operations, context, *args, **kw)
        except exceptions.ClimateError as exc:
            raise messaging.ExpectedException from exc
        except Stale:
            LOG.warning('A lease was changed by others again and again', exc_info=True)
            raise exceptions.ServiceUnavailable('The lease is busy. Try again.')
        except TROUBLE:
            LOG.exception('The database failed')
            raise exceptions.ServiceUnavailable('The database does not answer. Try again.')

    return method


def _writes(operation: _Operation[P, T]) -> _Method[P, T]:
    """Make a method of an operation that writes, after which the engines look at what is due."""
    read = _reads(operation)

    @functools.wraps(operation)
    def method(self: '_Served', context: 'RequestContext', /, *args: P.args, **kw: P.kwargs) -> T:
        result = read(self, context, *args, **kw)
        self._wrote()
        return result

    return method


class _Served:
    """A set of methods of version 1.1, which answers 1.0 as well.

    :param operations: has an operation for each of the methods
    :param wrote: called after something was written that may be due, to nudge the engines
    """

    target = messaging.Target(version=client.VERSION)

    def __init__(self, operations: Any, wrote: Callable[[], None]) -> None:
        self.reserving = ReservingLimit(None)
        self._operations = operations
        self._wrote = wrote


class FloatingIpEndpoint(_Served):
    """The operations on floating IPs."""

    create_floatingips = _writes(FloatingIpOperations.create_floatingips)
    delete_floatingip = _reads(FloatingIpOperations.delete_floatingip)


class NetworkEndpoint(_Served):
    """The operations on network segments."""

    create_networks = _writes(NetworkOperations.create_networks)
    update_network = _writes(NetworkOperations.update_network)
    delete_network = _reads(NetworkOperations.delete_network)
    set_network_property = _reads(NetworkOperations.set_network_property)


class FeedEndpoint(_Served):
    """The operations on feeds."""

    create_feed = _reads(FeedOperations.create_feed)
    feed_roles = _reads(FeedOperations.feed_roles)
    delete_feed = _reads(FeedOperations.delete_feed)


class HostEndpoint(_Served):
    """The operations on hosts."""

    create_host = _writes(HostOperations.create_host)
    update_host = _writes(HostOperations.update_host)
    delete_host = _reads(HostOperations.delete_host)
    set_host_property = _reads(HostOperations.set_host_property)
    set_host_pool = _reads(HostOperations.set_host_pool)
    delete_host_pool = _reads(HostOperations.delete_host_pool)


class LeaseEndpoint(_Served):
    """The operations on leases, and the hints of other managers.

    :param nudged: called when a manager says that it wrote something, this one too
    """

    def __init__(
        self,
        operations: LeaseOperations,
        wrote: Callable[[], None],
        nudged: Callable[['RequestContext'], None],
    ) -> None:
        super().__init__(operations, wrote)
        self._nudged = nudged

    # These two tell the engines themselves, if what they write is soon due.
    create_lease = _reads(LeaseOperations.create_lease, reserves=True)
    add_reservation = _reads(LeaseOperations.add_reservation, reserves=True)

    check_lease = _reads(LeaseOperations.check_lease, reserves=True)
    find_windows = _reads(LeaseOperations.find_windows, reserves=True)
    update_lease = _writes(LeaseOperations.update_lease)
    delete_lease = _writes(LeaseOperations.delete_lease)
    start_lease = _writes(LeaseOperations.start_lease)
    end_lease = _writes(LeaseOperations.end_lease)
    update_reservation = _writes(LeaseOperations.update_reservation)
    remove_reservation = _writes(LeaseOperations.remove_reservation)

    def ping(self, context: 'RequestContext') -> None:
        """Tell that a manager is there."""

    def nudge(self, context: 'RequestContext') -> None:
        """Wake the scheduler, since another manager wrote something."""
        self._nudged(context)
