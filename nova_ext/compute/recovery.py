# SPDX-License-Identifier: Apache-2.0
"""Set a server that could not be started back to RESERVED, so that the lease service can repeat.

It keeps its claim, its allocation and its ports.
"""

import contextlib
import logging
import sys
import traceback
from collections.abc import Iterable, Iterator
from typing import Any

import nova.conf
import oslo_messaging
import tenacity
from cinderclient import exceptions as cinder_exceptions
from keystoneauth1 import exceptions as ks_exceptions
from nova import exception, objects
from nova.compute import power_state, task_states, vm_states
from nova.compute import utils as compute_utils

from nova_ext import states, volumes, wake_marker

LOG = logging.getLogger(__name__)

#: How nova's build fails (nova/compute/manager.py, _build_and_run_instance); a server that was
#: deleted meanwhile is not among them.
_FAILURES = (
    exception.RescheduledException,
    exception.BuildAbortException,
    exception.ConsumerAllocationRetrievalFailed,
    ks_exceptions.ClientException,
)
_EVENT = 'compute_wake_up'
#: So many characters of a traceback are recorded: nova has 64 KiB for it on MariaDB, and errors
#: that nova-conductor answers have its own traceback in them.
_TRACEBACK = 10_000
#: For so many times nova's ``rpc_response_timeout`` nova-conductor is asked.
_TIMEOUTS = 4
#: Between two tries: nova-conductor that has no database answers at once.
_PAUSE = tenacity.wait_exponential(multiplier=0.2, max=10)


@contextlib.contextmanager
def reserved_on_failure(manager: Any, build: Any) -> Iterator[None]:
    """Run the second half of a build; if it fails, the server is RESERVED again."""
    marker = wake_marker.get(build.instance)
    try:
        yield
    except _FAILURES as error:
        try:
            back_to_reserved(manager, build.context, build.instance, error)
        except oslo_messaging.MessagingException:
            after_lost_reply(manager, build.context, build.instance, marker, error)
        manager._build_failed(build.node)
    except oslo_messaging.MessagingException as error:
        # Nova would set the server to ERROR and delete its allocation, and leave its guest.
        after_lost_reply(manager, build.context, build.instance, marker, error)


def after_lost_reply(
    manager: Any, context: Any, instance: Any, marker: str | None, error: Exception
) -> None:
    """Find out how far a start came, and undo it if the server is still being built.

    It is repeated while nova-conductor, or its database, is away. A try that is not answered takes
    nova's ``rpc_response_timeout`` by itself.

    :param marker: of the wake_up that this host served; the start of a later one is left alone
    :param error: why it is not known
    :raises oslo_messaging.MessagingException: nova-conductor does not come back
    """
    repeated = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(oslo_messaging.MessagingException),
        stop=tenacity.stop_after_delay(_TIMEOUTS * nova.conf.CONF.rpc_response_timeout),
        wait=_PAUSE,
        before_sleep=tenacity.before_sleep_log(LOG, logging.WARNING),
        reraise=True,
    )
    repeated(_look_and_undo, manager, context, instance, marker, error)


def _look_and_undo(
    manager: Any, context: Any, instance: Any, marker: str | None, error: Exception
) -> None:
    instance.refresh()
    if instance.vm_state == vm_states.BUILDING:
        if wake_marker.get(instance) == marker:
            _undo_start(manager, context, instance, error)
    elif instance.vm_state not in (vm_states.ACTIVE, states.RESERVED):
        # What is an ERROR stays one however often nova-conductor is asked.
        LOG.error(
            'The start of server %s ended as %s: %s', instance.uuid, instance.vm_state, error
        )


def back_to_reserved(manager: Any, context: Any, instance: Any, error: Exception) -> None:
    """Make the server RESERVED again and say why, in its fault and in its action.

    :raises nova.exception.UnexpectedDeletingTaskStateError: it is being deleted
    """
    LOG.error('Reserved server %s did not start: %s', instance.uuid, error)
    _hold_volumes(manager, context, instance)
    _rest(instance)
    try:
        instance.save(expected_task_state=_BUILDING)
    except exception.UnexpectedDeletingTaskStateError:
        # Nova saves the object once more while it cleans up: without our changes.
        instance.refresh()
        raise
    reason = _public_reason(error)
    try:
        compute_utils.add_instance_fault_from_exc(
            context, instance, error, sys.exc_info(), fault_message=reason
        )
        _record(context, instance, error, manager.host)
    except oslo_messaging.MessagingException as failure:
        # The server is RESERVED, and may be woken again by now: nothing of this is repeated.
        LOG.warning('Why server %s did not start is not recorded: %s', instance.uuid, failure)


_BUILDING = (
    None,
    task_states.SCHEDULING,
    task_states.NETWORKING,
    task_states.BLOCK_DEVICE_MAPPING,
    task_states.SPAWNING,
)


def at_start(manager: Any, context: Any, instance: Any) -> bool:
    """Initialize a reserved server when nova-compute starts.

    Stock nova would plug the ports of a reserved server, and set to ERROR one that is being
    woken (nova/compute/manager.py, _init_instance).

    :returns: True if nova must not initialize the server
    """
    if instance.host != manager.host or instance.task_state == task_states.DELETING:
        return False
    if instance.vm_state == states.RESERVED:
        if instance.task_state is not None:
            # The message may still be in the queue, or lost. The marker stays, so the message
            # starts the server, and so does a repeated wake_up, which needs not wait.
            instance.task_state = None
            instance.save()
        return True
    if instance.vm_state == vm_states.BUILDING and wake_marker.get(instance):
        # Another host may be starting it, of which nova does not know before the claim.
        if wake_marker.get_host(instance) == manager.host:
            _undo_interrupted(manager, context, instance)
        return True
    return False


def rescheduled(manager: Any, context: Any, node_uuids: Iterable[str]) -> set[str]:
    """Initialize the reserved servers of other hosts that have an allocation here.

    One that this host was starting, and had not claimed when its nova-compute stopped, is RESERVED
    again. One that another host is starting is left alone.

    :param node_uuids: of the compute nodes of this host
    :returns: their ids
    """
    found = {
        each.uuid: each
        for node_uuid in node_uuids
        for each in _building(manager, context, node_uuid)
        if each.host and each.host != manager.host and wake_marker.get(each)
    }
    for each in found.values():
        if wake_marker.get_host(each) != manager.host:
            continue
        try:
            _undo_interrupted(manager, context, each)
        except exception.NovaException:
            # It is being deleted, perhaps; nova-compute has to start all the same.
            LOG.exception('The start of server %s is not undone', each.uuid)
    return set(found)


def _undo_interrupted(manager: Any, context: Any, instance: Any) -> None:
    LOG.warning('nova-compute stopped while server %s was starting', instance.uuid)
    interrupted = exception.BuildAbortException(
        instance_uuid=instance.uuid,
        reason='nova-compute stopped while the server was starting',
    )
    _undo_start(manager, context, instance, interrupted)


def _building(manager: Any, context: Any, node_uuid: str) -> Iterable[Any]:
    """Return the servers in BUILDING that have an allocation on a compute node."""
    try:
        found = manager.reportclient.get_allocations_for_resource_provider(context, node_uuid)
    except (
        exception.ResourceProviderAllocationRetrievalFailed,
        ks_exceptions.ClientException,
    ) as error:
        # Nova asks next, and leaves the servers of this node alone as well if it gets no answer.
        LOG.warning('What is allocated on %s is not known: %s', node_uuid, error)
        return []
    filters = {'vm_state': vm_states.BUILDING, 'uuid': set(found.allocations)}
    if not found.allocations:
        return []
    servers: Iterable[Any] = objects.InstanceList.get_by_filters(
        context, filters, expected_attrs=['system_metadata']
    )
    return servers


def _undo_start(manager: Any, context: Any, instance: Any, error: Exception) -> None:
    """Remove from the host what a start that was interrupted has left there."""
    bdms = objects.BlockDeviceMappingList.get_by_instance_uuid(context, instance.uuid)
    try:
        manager._shutdown_instance(
            context, instance, bdms, notify=False, try_deallocate_networks=False
        )
    except exception.NovaException as failure:
        # As nova does when it cannot end what it had begun: the operator has to look.
        LOG.exception('What is left of the start of %s cannot be removed', instance.uuid)
        compute_utils.add_instance_fault_from_exc(context, instance, failure, sys.exc_info())
        manager._set_instance_obj_error_state(instance, clean_task_state=True)
        return
    back_to_reserved(manager, context, instance, error)


def _rest(instance: Any) -> None:
    wake_marker.clear(instance)
    instance.vm_state = states.RESERVED
    instance.task_state = None
    instance.power_state = power_state.NOSTATE


def _hold_volumes(manager: Any, context: Any, instance: Any) -> None:
    bdms = objects.BlockDeviceMappingList.get_by_instance_uuid(context, instance.uuid)
    try:
        volumes.hold(context, manager.volume_api, instance, bdms)
    except (
        exception.NovaException,
        cinder_exceptions.ClientException,
        ks_exceptions.ClientException,
    ):
        # wake_up does it again before it sends the server here.
        LOG.exception('The volumes of reserved server %s are not reserved', instance.uuid)


def _public_reason(error: Exception) -> str:
    """Return what the owner of a server may read; the log has the rest.

    As in nova (nova/compute/utils.py, exception_to_dict): only its own exceptions, and those of
    this extension, have messages for users.
    """
    if isinstance(error, exception.NovaException):
        return str(error.kwargs.get('reason') or error.format_message())
    ours = type(error).__module__.startswith('nova_ext.')
    return str(error) if ours else type(error).__name__


def _record(context: Any, instance: Any, error: Exception, host: str) -> None:
    """Make the failure visible in the list of actions of the server."""
    try:
        objects.InstanceActionEvent.event_start(
            context, instance.uuid, _EVENT, want_result=False, host=host
        )
        objects.InstanceActionEvent.event_finish_with_failure(
            context,
            instance.uuid,
            _EVENT,
            exc_val=_public_reason(error),
            exc_tb=''.join(traceback.format_exception(error))[-_TRACEBACK:],
            want_result=False,
        )
    except exception.InstanceActionNotFound:
        LOG.debug('Server %s is not started by this request', instance.uuid)
