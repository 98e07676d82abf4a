# SPDX-License-Identifier: Apache-2.0
"""Answer requests for hosts, in the words of Blazar's clients.

Heat's OS::Blazar::Lease takes no lease where this list is empty
(heat/engine/clients/os/blazar.py:has_host of heat 27.0.1).
"""

from typing import Any, Final

import webob

from climate_core.api import policy
from climate_core.api.request import Backend, Request, answer
from climate_core.policies import plugins as rules

#: All hosts of the cloud: nova-scheduler takes one of them when a server is reserved. None can be
#: reserved as a whole.
POOL: Final[dict[str, Any]] = {
    'id': 'shared',
    'hypervisor_hostname': 'shared',
    'service_name': 'shared',
    'reservable': False,
}


def list_(backend: Backend, request: Request) -> webob.Response:
    """The one pool that there is."""
    policy.authorize(backend.enforcer, request.context, rules.GET, {})
    return answer(200, {'hosts': [POOL]})
