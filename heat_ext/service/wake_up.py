# SPDX-License-Identifier: Apache-2.0
"""The second half of a reservation, asked for by heat.

The rights are those of the stack's owner together with heat's own service token: the policies of
nova and cinder want both, so that no owner starts early.
"""

from typing import Any

from heat_ext.service import client


def server(resource: Any, server_id: str) -> None:
    """Let a reserved server be started.

    :param resource: a heat.engine.resource.Resource of the stack
    :raises novaclient.exceptions.ClientException: nova says no; a conflict if it sleeps no more
    """
    _act(resource, 'nova', f'/servers/{server_id}/action', 'wake_up')


def volume(resource: Any, volume_id: str) -> None:
    """Let a reserved volume be created.

    :raises cinderclient.exceptions.ClientException: as above
    """
    _act(resource, 'cinder', f'/volumes/{volume_id}/action', 'os-wake_up')


def _act(resource: Any, service: str, url: str, action: str) -> None:
    http = resource.client(service).client
    http.post(url, body={action: {}}, auth=client.both_tokens(resource.context))
