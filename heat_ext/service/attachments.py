# SPDX-License-Identifier: Apache-2.0
"""Change the attachments of volumes in cinder, with the rights of the stack's owner.

Each function takes a heat.engine.resource.Resource of the stack, and raises
cinderclient.exceptions.ClientException if cinder refuses.
"""

from typing import Any, Final

#: The release of cinder's API that has the action os-complete; lists have filters since 3.27.
_MICROVERSION: Final = '3.44'


def list_ids(resource: Any, server_id: str, volume_id: str) -> list[str]:
    """Return the ids of what attaches a volume to a server, or reserves it for that."""
    path = f'/attachments?volume_id={volume_id}&instance_id={server_id}'
    _, listed = _http(resource).get(path, microversion=_MICROVERSION)
    return [attachment['id'] for attachment in listed['attachments']]


def complete(resource: Any, server_id: str, volume_id: str) -> None:
    """Set what attaches a volume to a server to attached, and the volume to in-use.

    If nothing attaches it, it is reserved for the server first. Cinder may have stopped after it
    set the volume to reserved, and before it wrote for whom; cinder_ext takes that back.
    """
    ids = list_ids(resource, server_id, volume_id)
    if not ids:
        _post(resource, f'/volumes/{volume_id}/action', {'os-unreserve': {}})
        wanted = {'volume_uuid': volume_id, 'instance_uuid': server_id}
        made = _post(resource, '/attachments', {'attachment': wanted})
        ids = [made['attachment']['id']]
    for attachment_id in ids:
        _post(resource, f'/attachments/{attachment_id}/action', {'os-complete': {}})


def delete(resource: Any, attachment_id: str) -> None:
    """Delete an attachment that nova has no record of; cinder refuses one that nova uses."""
    _http(resource).delete(f'/attachments/{attachment_id}', microversion=_MICROVERSION)


def _post(resource: Any, path: str, body: dict[str, Any]) -> Any:
    _, answer = _http(resource).post(path, body=body, microversion=_MICROVERSION)
    return answer


def _http(resource: Any) -> Any:
    return resource.client('cinder').client
