# SPDX-License-Identifier: Apache-2.0
"""Let the attachments of a volume count as complete, with the rights of the stack's owner."""

from typing import Any, Final

#: The release of cinder's API that has the action os-complete; lists have filters since 3.27.
_MICROVERSION: Final = '3.44'


def complete(resource: Any, server_id: str, volume_id: str) -> None:
    """Set what attaches a volume to a server to attached, and the volume to in-use.

    :param resource: a heat.engine.resource.Resource of the stack
    :raises cinderclient.exceptions.ClientException: cinder refuses
    """
    http = resource.client('cinder').client
    path = f'/attachments?volume_id={volume_id}&instance_id={server_id}'
    _, found = http.get(path, microversion=_MICROVERSION)
    for each in found['attachments']:
        action = f'/attachments/{each["id"]}/action'
        http.post(action, body={'os-complete': {}}, microversion=_MICROVERSION)
