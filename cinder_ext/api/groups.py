# SPDX-License-Identifier: Apache-2.0
"""Keep groups, and snapshots of them, that reserved volumes will be created from.

Cinder deletes all that is in them without ``volume_api_class``, so these controllers check before
its own do.
"""

from collections.abc import Iterator
from typing import Any

from cinder import objects
from cinder.api.openstack import wsgi
from cinder.policies import group_actions, group_snapshots

from cinder_ext import sources


class GroupController(wsgi.Controller):
    """POST /groups/{id}/action {"delete": ...}."""

    @wsgi.extends(action='delete')
    def _delete(self, req: Any, id: str, body: Any) -> Iterator[None]:  # noqa: ARG002
        _check_group(req.environ['cinder.context'], id)
        yield


class ConsistencyGroupController(wsgi.Controller):
    """POST /consistencygroups/{id}/delete, the older words for the same."""

    @wsgi.extends
    def delete(self, req: Any, id: str, body: Any = None) -> Iterator[None]:  # noqa: ARG002
        """Check the group before cinder deletes it."""
        _check_group(req.environ['cinder.context'], id)
        yield


class GroupSnapshotController(wsgi.Controller):
    """DELETE /group_snapshots/{id}, and DELETE /cgsnapshots/{id}."""

    @wsgi.extends
    def delete(self, req: Any, id: str) -> Iterator[None]:
        """Check the snapshots before cinder deletes them."""
        context = req.environ['cinder.context']
        found = objects.GroupSnapshot.get_by_id(context, id)
        context.authorize(group_snapshots.DELETE_POLICY, target_obj=found)
        sources.check_group_snapshot(context, found)
        yield


#: Collection of cinder's API -> controller that checks before its own.
CONTROLLERS = {
    'groups': GroupController,
    'consistencygroups': ConsistencyGroupController,
    'group_snapshots': GroupSnapshotController,
    'cgsnapshots': GroupSnapshotController,
}


def _check_group(context: Any, group_id: str) -> None:
    found = objects.Group.get_by_id(context, group_id)
    context.authorize(group_actions.DELETE_POLICY, target_obj=found)
    sources.check_group(context, found)
