# SPDX-License-Identifier: Apache-2.0
"""``OS::Climate::Server``: ``OS::Nova::Server`` that can be reserved."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NoReturn

import tenacity
from heat.common import exception
from heat.engine.resources.openstack.nova import server
from heat.objects import resource as objects

from heat_ext.members import reservable
from heat_ext.service import leases, wake_up
from heat_ext.stacks import tree

_RESERVED = 'RESERVED'
_ERROR = 'ERROR'
#: The attribute with the time of the first start.
_LAUNCHED_AT = 'OS-SRV-USG:launched_at'
#: The server is being built, or nova cannot reach its host just now.
_TRANSITIONAL = frozenset(('BUILD', 'UNKNOWN'))
#: The statuses that heat's own check of a creation takes for running or failed.
_CHECKED_BY_HEAT = frozenset(('ACTIVE', 'ERROR', 'DELETED', 'SOFT_DELETED'))
_VOLUME_RESERVED = 'lease-reserved'
_VOLUME_CREATING = frozenset(('creating', 'downloading', 'restoring-backup'))
_Core = server.Server


class Server(reservable.Reservable, server.Server):
    """A server whose hints, or whose stack, may name a lease."""

    RESERVED_STATUSES: ClassVar[frozenset[str]] = frozenset((_RESERVED,))
    WAKEABLE_STATUSES: ClassVar[frozenset[str]] = RESERVED_STATUSES
    UPDATABLE: ClassVar[frozenset[str]] = frozenset(
        (
            _Core.NAME,
            _Core.TAGS,
            _Core.FLAVOR_UPDATE_POLICY,
            _Core.IMAGE_UPDATE_POLICY,
            _Core.USER_DATA_UPDATE_POLICY,
            _Core.SOFTWARE_CONFIG_TRANSPORT,
        )
    )
    #: Nova refuses tags of a server that has never run.
    APPLIED_AFTER_START: ClassVar[frozenset[str]] = frozenset((_Core.TAGS,))
    #: Whether this update changes the metadata after the start.
    _metadata_pending = False

    def _poll(self) -> Any:
        return self.client_plugin().fetch_server(self.resource_id)

    def _status(self, found: Any) -> str:
        return self.client_plugin().get_status(found)

    def _is_transitional(self, found: Any) -> bool:
        return self._status(found) in _TRANSITIONAL or self._is_unanswered(found)

    def _is_unanswered(self, found: Any) -> bool:
        task_state = getattr(found, 'OS-EXT-STS:task_state', None)
        return self._status(found) == _RESERVED and bool(task_state)

    def _has_started(self, found: Any) -> bool:
        # A server that its user has stopped meanwhile has started before.
        if self._status(found) in _CHECKED_BY_HEAT:
            return super()._has_started(found)
        return True

    def _failure_reason(self, found: Any) -> str:
        fault = getattr(found, 'fault', None) or {}
        return f'The server could not be started: {fault.get("message") or "nova gives no reason"}'

    def _wake_up(self) -> None:
        wake_up.server(self, self.resource_id)

    def _on_reserved(self) -> None:
        self.store_external_ports()

    def _sources_ready(self) -> bool:
        """Return whether the volumes that the server boots from exist; wake up reserved ones.

        Those of the stack exist already, unless the lease started while the stack was created.
        Nova refuses to start a server from a volume that another lease reserves.
        """
        waiting = False
        for volume_id in self._volume_ids(self.properties):
            status = self.client('cinder').volumes.get(volume_id).status
            due = status == _VOLUME_RESERVED and leases.holds_resource(
                self._find_lease(), volume_id
            )
            if due:
                wake_up.volume(self, volume_id)
            waiting |= due or status in _VOLUME_CREATING
        return not waiting

    def _volume_ids(self, properties: Mapping[str, Any]) -> Iterator[str]:
        for name, key in (
            (self.BLOCK_DEVICE_MAPPING, self.BLOCK_DEVICE_MAPPING_VOLUME_ID),
            (self.BLOCK_DEVICE_MAPPING_V2, self.BLOCK_DEVICE_MAPPING_VOLUME_ID),
        ):
            for mapping in properties[name] or ():
                if mapping.get(key):
                    yield mapping[key]

    def _updatable(self, after_props: Mapping[str, Any]) -> frozenset[str]:
        found = self.UPDATABLE
        if after_props.get(self.USER_DATA_UPDATE_POLICY) == 'IGNORE':
            found |= {self.USER_DATA}
        # Metadata may come from values that exist only now, as the signals of another server.
        return found | {self.METADATA} if self._is_due() else found

    def handle_update(self, json_snippet: Any, tmpl_diff: Any, prop_diff: Any) -> Any:
        self._metadata_pending = self.METADATA in prop_diff and self.is_reserved()
        if self._metadata_pending:
            prop_diff = {key: prop_diff[key] for key in prop_diff if key != self.METADATA}
        return super().handle_update(json_snippet, tmpl_diff, prop_diff)

    def _clear_reservation(self) -> bool:
        if self._metadata_pending:
            found = self.client_plugin().get_server(self.resource_id)
            self.client_plugin().meta_update(found, self.properties[self.METADATA])
        return super()._clear_reservation()

    # A reserved server may hold volumes, ports or addresses that its replacement needs.

    def prepare_for_replace(self) -> None:
        """Delete the server first if its replacement needs its volumes, ports or addresses.

        The same applies after the start of the lease: the replacement has to run at once, in the
        same place. Heat would detach the ports, which nova refuses for a reserved server, and
        leave the volumes to a server that could not be started. Any other reserved server is
        deleted after its replacement is reserved.
        """
        if not self._has_never_run():
            super().prepare_for_replace()
            return
        definition = self.stack.defn.resource_definition(self.name)
        following = definition.properties(self.properties_schema, self.context)
        shared = set(self._exclusive_ids(self.properties)) & set(self._exclusive_ids(following))
        if shared or self._is_due():
            self._delete_server(self.resource_id)

    def _has_never_run(self) -> bool:
        found = self._find_live() if self.lease_id() else None
        if found is None or self._status(found) not in self.RESERVED_STATUSES | {_ERROR}:
            return False
        return not getattr(found, _LAUNCHED_AT, None)

    def _exclusive_ids(self, properties: Mapping[str, Any]) -> Iterator[str]:
        """Yield the volumes, ports and addresses that only one server can have."""
        yield from self._volume_ids(properties)
        for network in properties[self.NETWORKS] or ():
            for key in (self.NETWORK_PORT, self.NETWORK_FIXED_IP):
                if network.get(key):
                    yield network[key]

    def restore_prev_rsrc(self, convergence: bool = False) -> None:
        """Take over from the replacement when an update is rolled back."""
        replacement = _find_reserved_replacement(self) if convergence else None
        if not replacement and not self.is_reserved():
            if not self._was_deleted_reserved():
                super().restore_prev_rsrc(convergence)
            return
        if replacement:
            self._delete_server(replacement)
        if not self.lease_id():
            self.attach_ports(self)

    def _was_deleted_reserved(self) -> bool:
        """Return whether the reserved server was deleted; the rollback reserves a new one."""
        return self.lease_id() is not None and self._find_live() is None

    def _delete_server(self, server_id: str) -> None:
        with self.client_plugin().ignore_not_found:
            self.client().servers.delete(server_id)
            _wait_until_deleted(self.client_plugin(), server_id)

    # The other actions leave a reserved server alone.

    def handle_suspend(self) -> Any:
        return None if self.is_reserved() else super().handle_suspend()

    def check_suspend_complete(self, server_id: str | None) -> bool:
        return server_id is None or super().check_suspend_complete(server_id)

    def handle_resume(self) -> Any:
        return None if self.is_reserved() else super().handle_resume()

    def check_resume_complete(self, server_id: str | None) -> bool:
        return server_id is None or super().check_resume_complete(server_id)

    def handle_restore(self, defn: Any, restore_data: Any) -> Any:
        if not restore_data['resource_data'].get('snapshot_image_id'):
            return defn
        return super().handle_restore(defn, restore_data)


TYPES = {'OS::Climate::Server': Server}


def _find_reserved_replacement(previous: Server) -> str | None:
    """Return the id of the reserved server that replaces another."""
    if not previous.replaced_by:
        return None
    try:
        row = objects.Resource.get_obj(previous.context, previous.replaced_by)
    except exception.NotFound:
        return None
    reserved = any(each.key == tree.LEASE_KEY for each in row.data)
    return row.physical_resource_id if reserved else None


def _fail_not_deleted(server_id: str) -> NoReturn:
    raise exception.Error(f'The reserved server {server_id} was not deleted within 60 seconds.')


@tenacity.retry(
    stop=tenacity.stop_after_delay(60),
    wait=tenacity.wait_fixed(1),
    retry=tenacity.retry_if_result(lambda gone: not gone),
    retry_error_callback=lambda state: _fail_not_deleted(state.args[1]),
)
def _wait_until_deleted(plugin: Any, server_id: str) -> bool:
    """Wait up to 60 seconds for the deletion of a server.

    Heat's prepare_for_replace has no second step, and waits for ports in the same way
    (heat.engine.resource.Resource.prepare_for_replace).
    """
    return plugin.check_delete_server_complete(server_id)
