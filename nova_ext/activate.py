# SPDX-License-Identifier: Apache-2.0
"""Activate the extension from nova.conf alone, by a notification driver.

With ``[oslo_messaging_notifications] driver = climate`` beside the drivers that send, every nova
service loads :class:`NotifyDriver` right after its configuration and before its manager or WSGI
application (nova/rpc.py, init). oslo.messaging logs a misspelt driver name as a warning and a
stock service starts; the scheduler filter then finds no host for a reservation.

The other way fails closed: the console script ``climate-nova-compute``
(:mod:`nova_ext.cmd.compute`) and ``nova_ext.api.routes:app_factory`` in api-paste.ini.
"""

import logging

from oslo_config import cfg
from oslo_messaging.notify import notifier

from climateclient.extension.errors import Incompatible
from nova_ext import enable

LOG = logging.getLogger(__name__)

#: ``CONF.prog`` of nova's compute API (nova/wsgi/osapi_compute.py).
API_PROGRAM = 'nova-api-os-compute'


class NotifyDriver(notifier.Driver):
    """Enable the extension when oslo.messaging loads this driver; send nothing."""

    def __init__(self, conf: cfg.ConfigOpts, topics: object, transport: object) -> None:
        super().__init__(conf, topics, transport)
        try:
            if conf.prog == API_PROGRAM:
                # Only nova-api may import the controllers.
                from nova_ext.api import routes

                routes.enable_api()
            else:
                enable.enable_service()
        except Incompatible as error:
            # stevedore logs every Exception of a driver and goes on without it.
            LOG.critical('%s', error)
            raise SystemExit(str(error)) from error

    def notify(self, ctxt: object, msg: object, priority: object, retry: object) -> None:
        """Send nothing."""
