# SPDX-License-Identifier: Apache-2.0
"""Enable the extension in one service of nova, by adding rows to nova's lookup tables."""

import nova.conf
from nova import service

from nova_ext import conf, seams, states

COMPUTE = 'nova-compute'
MANAGER = 'nova_ext.compute.manager.ComputeManager'


def enable_service() -> None:
    """Add the state, the options and the manager of nova-compute to any service of nova.

    The manager is only named here; nova-compute imports its module, which checks its own
    extension points.

    :raises climateclient.extension.errors.Incompatible: an extension point is not as expected;
        nothing was changed
    """
    seams.check(seams.EVERYWHERE)
    conf.register(nova.conf.CONF)
    states.add()
    service.SERVICE_MANAGERS[COMPUTE] = MANAGER
