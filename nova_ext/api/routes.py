# SPDX-License-Identifier: Apache-2.0
"""Puts our controllers into nova's table of routes.

Two entries change: POST /servers (the hints are checked) and POST /servers/{id}/action (one more
action). Both keep everything that nova's own entries have, by the same factory.
"""

import functools
from typing import Any

from nova.api.openstack.compute import routes

from climateclient.extension.errors import Incompatible
from nova_ext.api import servers, wake_up

_CHANGED = (('/servers', 'create'), ('/servers/{id}/action', 'action'))


def install() -> None:
    """Change the table; a second time does nothing.

    :raises Incompatible: an entry is not where it should be
    """
    table = {path: methods for path, methods in routes.ROUTE_LIST if isinstance(methods, dict)}
    for path, action in _CHANGED:
        if table.get(path, {}).get('POST', (None, None))[1] != action:
            raise Incompatible(f'Climate cannot find POST {path} in the routes of this nova')
    _, actions = routes.server_controller.args
    controller = functools.partial(
        routes._create_controller,
        servers.ServersController,
        [*actions, wake_up.WakeUpController],
    )
    for path, action in _CHANGED:
        table[path]['POST'] = [controller, action]


def app_factory(global_config: Any, **local_config: Any) -> routes.APIRouterV21:
    """Make nova's API with our routes.

    For api-paste.ini: ``[app:osapi_compute_app_v21]
    paste.app_factory = nova_ext.api.routes:app_factory``
    """
    from nova_ext import activate

    activate.enable_api()
    return routes.APIRouterV21.factory(global_config, **local_config)
