# SPDX-License-Identifier: Apache-2.0
"""POST /servers/{id}/action {"wake_up": {}}: the second half of a reserved build.

A 202 says that a message was sent to nova-compute, not that it arrives: RabbitMQ may lose it, and
a nova-compute that stops loses those that it has taken but not begun. What GET /servers/{id}
shows is the rule that the lease service relies on:

==================== ======================= ======================================================
status               OS-EXT-STS:task_state   meaning, and the answer to a wake_up
==================== ======================= ======================================================
RESERVED             null                    nothing starts it (never asked, failed with a fault,
                                             or nova-compute was restarted): 202
RESERVED             scheduling              sent, and no nova-compute has begun: no sign of life.
                                             409 until ``[climate] wake_up_timeout`` seconds have
                                             passed since the last wake_up (``updated`` of the
                                             server), then 202
BUILD                any                     a nova-compute has begun, and has written the event
                                             compute__do_build_and_run_instance of the action
                                             wake_up: 409
ACTIVE               null                    it runs: 409
ERROR                null                    it cannot be woken; its fault says why: 409
==================== ======================= ======================================================

Repeating a wake_up is always safe. However often it is asked, and however late, often and in
whatever order the messages arrive, the server is started once: nova-compute moves it from
RESERVED to BUILD by compare-and-swap before it does anything, and ignores a message that finds it
in another state or with the marker of another wake_up. A nova-compute that stops in BUILD sets
the server back to RESERVED when it starts again. If its host does not come back, the server stays
in BUILD until an operator has fenced the host; nothing here starts it a second time.

os-resetState is never needed for a RESERVED server, and takes its reservation away: nova then
calls it ACTIVE or ERROR, and it can only be deleted.
"""

import logging
from typing import Any

import nova.conf
import oslo_messaging
from cinderclient import exceptions as cinder_exceptions
from keystoneauth1 import exceptions as ks_exceptions
from neutronclient.common import exceptions as neutron_exceptions
from nova import exception
from nova.api import validation
from nova.api.openstack import common, wsgi
from nova.compute import api as compute
from nova.compute import task_states
from oslo_utils import timeutils
from webob import exc

from climateclient.extension import wake_up
from nova_ext import conf, policies, saved_build_args, states
from nova_ext.api import start

LOG = logging.getLogger(__name__)

SCHEMA = wake_up.schema('wake_up')

#: What nova lets through of the services that it asks, and of its message bus.
_OUTAGES = (
    cinder_exceptions.ClientException,
    ks_exceptions.ClientException,
    neutron_exceptions.NeutronException,
    oslo_messaging.MessagingException,
)
_AWAY = 'The server cannot be started now: a service that Nova needs failed. Try again later.'
#: Nova gives them no code of their own, but they say something about the server.
_CONFLICTS = (
    exception.NoValidHost,
    exception.UnsupportedPolicyException,
    exception.AcceleratorRequestBindingFailed,
)


def _answer(error: exception.NovaException) -> exc.HTTPException:
    """Answer with nova's own words, but for outages: those have the URLs of other services."""
    if error.code < 500 or isinstance(error, _CONFLICTS):
        return exc.HTTPConflict(explanation=error.format_message())
    LOG.error('Could not start a reserved server', exc_info=error)
    return exc.HTTPServiceUnavailable(explanation=_AWAY)


class WakeUpController(wsgi.Controller):
    """Action of nova's servers."""

    def __init__(self) -> None:
        super().__init__()
        saved_build_args.check_keys(nova.conf.CONF[conf.GROUP])
        self.compute_api = compute.API()

    @wsgi.response(202)
    @wsgi.expected_errors((400, 403, 404, 409, 503))
    @wsgi.action('wake_up')
    @validation.schema(SCHEMA)
    def _wake_up(self, req: Any, id: str, body: Any) -> None:  # noqa: ARG002
        """Start a reserved server on the host that holds it, or on another if that is gone."""
        context = req.environ['nova.context']
        instance = common.get_instance(
            self.compute_api, context, id, expected_attrs=['flavor', 'system_metadata']
        )
        policies.POLICY.authorize(context, instance)
        try:
            self._start(context, instance)
        except saved_build_args.SavedArgsUnreadable as error:
            # Once the operator has added the key, a repeated wake_up works.
            LOG.error('Could not start reserved server %s: %s', id, error)
            raise exc.HTTPServiceUnavailable(explanation=str(error)) from error
        except exception.InstanceIsLocked as error:
            raise exc.HTTPConflict(explanation=error.format_message()) from error
        except exception.InstanceInvalidState as error:
            common.raise_http_conflict_for_instance_invalid_state(error, 'wake_up', id)
        except (exception.InstanceNotFound, exception.RequestSpecNotFound) as error:
            raise exc.HTTPNotFound(explanation=error.format_message()) from error
        except exception.NovaException as error:
            raise _answer(error) from error
        except _OUTAGES as error:
            LOG.exception('Could not start reserved server %s', id)
            raise exc.HTTPServiceUnavailable(explanation=_AWAY) from error

    @compute.check_instance_lock
    def _start(self, context: Any, instance: Any) -> None:
        self._check_state(context, instance)
        start.start(self.compute_api, context, instance)

    @compute.check_instance_state(
        vm_state=[states.RESERVED],
        task_state=[None, task_states.SCHEDULING],
        must_have_launched=False,
    )
    def _check_state(self, context: Any, instance: Any) -> None:  # noqa: ARG002
        """Refuse a repeated wake_up while the message of the first may still arrive."""
        lost_after = nova.conf.CONF[conf.GROUP].wake_up_timeout
        if instance.task_state and not timeutils.is_older_than(instance.updated_at, lost_after):
            raise exception.InstanceInvalidState(
                attr='task_state',
                instance_uuid=instance.uuid,
                state=instance.task_state,
                method='wake_up',
            )
