# SPDX-License-Identifier: Apache-2.0
"""The RPC server of climate-manager.

Its methods have the signatures of :class:`climate_core.operations.leases.LeaseOperations`,
:class:`climate_hosts.operations.hosts.HostOperations`,
:class:`climate_networks.operations.FloatingIpOperations`,
:class:`climate_networks.operations.NetworkOperations` and
:class:`climate_core.operations.feeds.FeedOperations`.
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import oslo_messaging as messaging
from oslo_log import log

from climate_core import exceptions
from climate_core import policies as core_policies
from climate_core.concurrency import ReservingLimit, check_deadline, deadline
from climate_core.context import RpcSerializer
from climate_core.db.engine import DATABASE_ERRORS, Stale, error_for_user
from climate_core.operations.feeds import FeedOperations
from climate_core.operations.leases import LeaseOperations
from climate_core.rpc import client
from climate_core.threads import received_at
from climate_hosts import policies
from climate_hosts.operations.hosts import HostOperations
from climate_networks import policies as climate_networks_policies
from climate_networks.operations import FloatingIpOperations, NetworkOperations

if TYPE_CHECKING:
    from climate_core.context import RequestContext

LOG = log.getLogger(__name__)

P = ParamSpec('P')
T = TypeVar('T')

_Operation = Callable[Concatenate[Any, 'RequestContext', P], T]
_Method = Callable[Concatenate['_Endpoint', 'RequestContext', P], T]
_Allowed = Callable[['RequestContext'], bool]


def create_server(
    transport: messaging.Transport, host: str, endpoint: 'LeaseEndpoint', *more: '_Endpoint'
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


def _checked_by_operation(_context: 'RequestContext') -> bool:
    """Return True: the operation checks the policy on the lease that it loads."""
    return True


def _in_project(rule: str) -> _Allowed:
    """Return whether the policy allowed a rule in the project of the request."""
    return lambda context: context.may(rule, context.project_id)


def _operator(rule: str) -> _Allowed:
    """Return whether the policy allowed a rule on what belongs to no project."""
    return lambda context: context.may_operate(rule)


def _reply_by(context: 'RequestContext') -> float | None:
    """Return when the caller times out; None if that is unknown.

    The time that the message was on the bus is not known. RabbitMQ drops it if the caller times
    out before it is delivered.
    """
    seconds = context.reply_seconds
    return received_at() + seconds if isinstance(seconds, (int, float)) else None


def _read_method(
    operation: _Operation[P, T], reserves: bool = False, allowed: _Allowed = _checked_by_operation
) -> _Method[P, T]:
    """Return a method of the server that calls an operation.

    Errors of users are returned; other errors are also logged.

    :param reserves: whether plugins send requests to other services for its resources
    :param allowed: returns whether the policy allows it; for leases the operation checks that
    """

    @functools.wraps(operation)
    def method(
        self: '_Endpoint', context: 'RequestContext', /, *args: P.args, **kw: P.kwargs
    ) -> T:
        try:
            if not allowed(context):
                raise exceptions.Forbidden(
                    f'{operation.__name__}: the API has not enforced the policy for this request.'
                )
            values: Any = kw.get('values', {}) if reserves else {}
            with deadline(_reply_by(context)), self.reserving.turn(context, values):
                check_deadline()
                return operation(self._operations, context, *args, **kw)
        except exceptions.ClimateError as exc:
            raise messaging.ExpectedException from exc
        except Stale as exc:
            LOG.warning('A lease was changed by others again and again', exc_info=True)
            raise error_for_user(exc) or exc
        except DATABASE_ERRORS as exc:
            LOG.exception('The database failed')
            raise error_for_user(exc) or exc

    return method


def _write_method(
    operation: _Operation[P, T], allowed: _Allowed = _checked_by_operation
) -> _Method[P, T]:
    """Return a method for an operation that writes, after which the engines poll."""
    read = _read_method(operation, allowed=allowed)

    @functools.wraps(operation)
    def method(
        self: '_Endpoint', context: 'RequestContext', /, *args: P.args, **kw: P.kwargs
    ) -> T:
        result = read(self, context, *args, **kw)
        self._wrote()
        return result

    return method


class _Endpoint:
    """A set of methods of version 1.1, which answers 1.0 as well.

    :param operations: has an operation for every method
    :param wrote: called after a write that may be due, to nudge the engines
    """

    target = messaging.Target(version=client.VERSION)

    def __init__(self, operations: Any, wrote: Callable[[], None]) -> None:
        self.reserving = ReservingLimit(None)
        self._operations = operations
        self._wrote = wrote


class FloatingIpEndpoint(_Endpoint):
    """The operations on floating IPs."""

    create_floatingips = _write_method(
        FloatingIpOperations.create_floatingips,
        _operator(climate_networks_policies.CREATE_FLOATING_IPS),
    )
    delete_floatingip = _read_method(
        FloatingIpOperations.delete_floatingip,
        allowed=_operator(climate_networks_policies.DELETE_FLOATING_IPS),
    )


class NetworkEndpoint(_Endpoint):
    """The operations on network segments."""

    create_networks = _write_method(
        NetworkOperations.create_networks, _operator(climate_networks_policies.CREATE_NETWORKS)
    )
    update_network = _write_method(
        NetworkOperations.update_network, _operator(climate_networks_policies.UPDATE_NETWORKS)
    )
    delete_network = _read_method(
        NetworkOperations.delete_network,
        allowed=_operator(climate_networks_policies.DELETE_NETWORKS),
    )
    set_network_property = _read_method(
        NetworkOperations.set_network_property,
        allowed=_operator(climate_networks_policies.UPDATE_NETWORK_PROPERTIES),
    )


class FeedEndpoint(_Endpoint):
    """The operations on feeds."""

    create_feed = _read_method(
        FeedOperations.create_feed, allowed=_in_project(core_policies.CREATE_FEED)
    )
    feed_roles = _read_method(FeedOperations.feed_roles)
    delete_feed = _read_method(FeedOperations.delete_feed)


class HostEndpoint(_Endpoint):
    """The operations on hosts."""

    create_host = _write_method(HostOperations.create_host, _operator(policies.CREATE))
    update_host = _write_method(HostOperations.update_host, _operator(policies.UPDATE))
    delete_host = _read_method(HostOperations.delete_host, allowed=_operator(policies.DELETE))
    set_host_property = _read_method(
        HostOperations.set_host_property, allowed=_operator(policies.UPDATE_PROPERTIES)
    )
    set_host_pool = _read_method(
        HostOperations.set_host_pool, allowed=_operator(policies.UPDATE_POOLS)
    )
    delete_host_pool = _read_method(
        HostOperations.delete_host_pool, allowed=_operator(policies.DELETE_POOLS)
    )


class LeaseEndpoint(_Endpoint):
    """The operations on leases, and the hints of other managers.

    Those on a lease that exists check on the lease that they load what the policy allowed.

    :param nudged: called when a manager, including this one, has written something
    """

    def __init__(
        self,
        operations: LeaseOperations,
        wrote: Callable[[], None],
        nudged: Callable[['RequestContext'], None],
    ) -> None:
        super().__init__(operations, wrote)
        self._nudged = nudged

    # These two nudge the engines themselves, if their lease is soon due.
    create_lease = _read_method(
        LeaseOperations.create_lease, True, _in_project(core_policies.CREATE_LEASE)
    )
    add_reservation = _read_method(LeaseOperations.add_reservation, reserves=True)

    check_lease = _read_method(
        LeaseOperations.check_lease, True, _in_project(core_policies.CREATE_LEASE)
    )
    find_windows = _read_method(
        LeaseOperations.find_windows, True, _in_project(core_policies.GET_AVAILABILITY)
    )
    update_lease = _write_method(LeaseOperations.update_lease)
    delete_lease = _write_method(LeaseOperations.delete_lease)
    start_lease = _write_method(LeaseOperations.start_lease)
    end_lease = _write_method(LeaseOperations.end_lease)
    update_reservation = _write_method(LeaseOperations.update_reservation)
    remove_reservation = _write_method(LeaseOperations.remove_reservation)

    def ping(self, context: 'RequestContext') -> None:
        """Answer, to show that a manager is running."""

    def nudge(self, context: 'RequestContext') -> None:
        """Wake the scheduler, since another manager has written something."""
        self._nudged(context)
