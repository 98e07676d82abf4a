# SPDX-License-Identifier: Apache-2.0
"""Put the controllers of the extension into nova's table of routes.

Three entries change: POST /servers (the hints are checked), DELETE /servers/{id} (reserved volumes
are left alone) and POST /servers/{id}/action (the same for forceDelete, and one more action). All
keep everything that nova's own entries have, by the same factory.
"""

import functools
from typing import Any

from nova.api.openstack.compute import deferred_delete, routes

from climateclient.extension.errors import Incompatible
from nova_ext import enable, seams, states
from nova_ext.api import extra_specs, servers, wake_up

_CHANGED = (
    ('/servers', 'POST', 'create'),
    ('/servers/{id}', 'DELETE', 'delete'),
    ('/servers/{id}/action', 'POST', 'action'),
)


def enable_api() -> None:
    """Enable the extension in nova-api: the state in its answers, the extra spec, the routes.

    :raises Incompatible: an extension point is not as expected; nothing was changed
    """
    seams.check(seams.EVERYWHERE, seams.API)
    enable.enable_service()
    states.add_to_api()
    extra_specs.add()
    install()


def install() -> None:
    """Change the table; a second time does nothing.

    :raises Incompatible: an entry is not where it should be
    """
    table = {path: methods for path, methods in routes.ROUTE_LIST if isinstance(methods, dict)}
    for path, method, action in _CHANGED:
        if table.get(path, {}).get(method, (None, None))[1] != action:
            raise Incompatible(f'Climate cannot find {method} {path} in the routes of this nova')
    _, actions = routes.server_controller.args
    if deferred_delete.DeferredDeleteController not in actions:
        raise Incompatible('Climate cannot find forceDelete in the routes of this nova')
    others = [each for each in actions if each is not deferred_delete.DeferredDeleteController]
    controller = functools.partial(
        routes._create_controller,
        servers.ServersController,
        [*others, servers.DeferredDeleteController, wake_up.WakeUpController],
    )
    for path, method, action in _CHANGED:
        table[path][method] = [controller, action]


def app_factory(global_config: Any, **local_config: Any) -> routes.APIRouterV21:
    """Make nova's API with our routes.

    For api-paste.ini: ``[app:osapi_compute_app_v21]
    paste.app_factory = nova_ext.api.routes:app_factory``
    """
    enable_api()
    return routes.APIRouterV21.factory(global_config, **local_config)
