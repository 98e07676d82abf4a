# SPDX-License-Identifier: Apache-2.0
"""Switches the extension on in a process of nova.

There are two ways, and both end here:

* nova.conf alone: ``[oslo_messaging_notifications] driver = climate`` beside the drivers that
  send. Every nova service makes its notification drivers right after it has read its
  configuration and before it looks up its manager or loads its WSGI application, so our driver,
  which sends nothing, is where we get in. A misspelt name is only a warning of oslo.messaging,
  and a stock service starts: the scheduler filter then finds no host for a reservation.
* the console script ``climate-nova-compute`` and the line in api-paste.ini, which fail closed.
"""

import logging

import nova.conf
from nova import service
from oslo_config import cfg
from oslo_messaging.notify import notifier

from climateclient.extension.errors import Incompatible
from nova_ext import conf, seams, states

LOG = logging.getLogger(__name__)

#: ``CONF.prog`` of nova's compute API (nova/wsgi/osapi_compute.py).
API_PROGRAM = 'nova-api-os-compute'
COMPUTE = 'nova-compute'
MANAGER = 'nova_ext.compute.manager.ComputeManager'


def enable() -> None:
    """Prepare any service of nova: the state, the options, and the manager of nova-compute.

    The manager is only named; the module is loaded by nova-compute, and checks its own seams.

    :raises Incompatible: a seam is not as expected; nothing was changed
    """
    seams.check(seams.EVERYWHERE)
    conf.register(nova.conf.CONF)
    states.add()
    service.SERVICE_MANAGERS[COMPUTE] = MANAGER


def enable_api() -> None:
    """Prepare nova-api: also the routes and the tables of its answers.

    :raises Incompatible: a seam is not as expected; nothing was changed
    """
    seams.check(seams.EVERYWHERE, seams.API)
    from nova_ext.api import routes

    enable()
    states.add_to_api()
    routes.install()


class NotifyDriver(notifier.Driver):
    """A driver of oslo.messaging that sends nothing: making it switches the extension on."""

    def __init__(self, conf: cfg.ConfigOpts, topics: object, transport: object) -> None:
        super().__init__(conf, topics, transport)
        try:
            if conf.prog == API_PROGRAM:
                enable_api()
            else:
                enable()
        except Incompatible as error:
            # stevedore logs every Exception of a driver and goes on without it.
            LOG.critical('%s', error)
            raise SystemExit(str(error)) from error

    def notify(self, ctxt: object, msg: object, priority: object, retry: object) -> None:
        """Send nothing."""
