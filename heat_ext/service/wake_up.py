# SPDX-License-Identifier: Apache-2.0
"""Request the start of a reserved server or volume from nova or cinder.

The requests carry the token of the stack's owner and the service token of heat: the policies of
nova and cinder require both, so that an owner alone cannot start a resource early.
"""

from typing import Any

from heat_ext.service import client


def server(resource: Any, server_id: str) -> None:
    """Request the start of a reserved server.

    :param resource: a heat.engine.resource.Resource of the stack
    :raises novaclient.exceptions.ClientException: nova refuses; a Conflict if the server is no
        longer RESERVED
    """
    _act(resource, 'nova', f'/servers/{server_id}/action', 'wake_up')


def volume(resource: Any, volume_id: str) -> None:
    """Request the creation of a reserved volume.

    :raises cinderclient.exceptions.ClientException: cinder refuses
    """
    _act(resource, 'cinder', f'/volumes/{volume_id}/action', 'os-wake_up')


def _act(resource: Any, service: str, url: str, action: str) -> None:
    http = resource.client(service).client
    http.post(url, body={action: {}}, auth=client.make_auth(resource.context))
