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
_BROKEN = 'ERROR'
#: When it ran for the first time.
_LAUNCHED = 'OS-SRV-USG:launched_at'
_WAITS = 'lease-reserved'
#: It is being built, or nova cannot reach its host just now.
_PASSING = frozenset(('BUILD', 'UNKNOWN'))
#: What heat makes of these after a creation: it runs, or it failed.
_TO_JUDGE = frozenset(('ACTIVE', 'ERROR', 'DELETED', 'SOFT_DELETED'))
_COMING = frozenset(('creating', 'downloading', 'restoring-backup'))
_Core = server.Server


class Server(reservable.Reservable, server.Server):
    """A server whose hints, or whose stack, may name a lease."""

    ASLEEP: ClassVar[frozenset[str]] = frozenset((_RESERVED,))
    WAKEABLE: ClassVar[frozenset[str]] = ASLEEP
    IN_SLEEP: ClassVar[frozenset[str]] = frozenset(
        (
            _Core.NAME,
            _Core.TAGS,
            _Core.FLAVOR_UPDATE_POLICY,
            _Core.IMAGE_UPDATE_POLICY,
            _Core.USER_DATA_UPDATE_POLICY,
            _Core.SOFTWARE_CONFIG_TRANSPORT,
        )
    )
    #: Whether it gets other metadata when it is awake.
    _new_metadata = False
    #: Nova says no to tags of a server that has never run.
    WHEN_AWAKE: ClassVar[frozenset[str]] = frozenset((_Core.TAGS,))

    def _fetch(self) -> Any:
        return self.client_plugin().fetch_server(self.resource_id)

    def _status(self, found: Any) -> str:
        return self.client_plugin().get_status(found)

    def _is_in_between(self, found: Any) -> bool:
        starting = bool(getattr(found, 'OS-EXT-STS:task_state', None))
        status = self._status(found)
        return status in _PASSING or (status == _RESERVED and starting)

    def _is_awake(self, found: Any) -> bool:
        # One that its user has stopped meanwhile has started before.
        if self._status(found) in _TO_JUDGE:
            return super()._is_awake(found)
        return True

    def _reason(self, found: Any) -> str:
        fault = getattr(found, 'fault', None) or {}
        return f'The server could not be started: {fault.get("message") or "Nova says no reason"}'

    def _wake_up(self) -> None:
        wake_up.server(self, self.resource_id)

    def _fall_asleep(self) -> None:
        self.store_external_ports()

    def _sources_are_there(self) -> bool:
        """Wake the volumes that it starts from, should they still sleep.

        Those of the stack are awake already, unless the lease started while it was created. For
        one of another lease nova says no.
        """
        waiting = False
        for volume_id in self._volume_ids(self.properties):
            status = self.client('cinder').volumes.get(volume_id).status
            due = status == _WAITS and leases.has(self._lease(), volume_id)
            if due:
                wake_up.volume(self, volume_id)
            waiting |= due or status in _COMING
        return not waiting

    def _volume_ids(self, properties: Mapping[str, Any]) -> Iterator[str]:
        for name, key in (
            (self.BLOCK_DEVICE_MAPPING, self.BLOCK_DEVICE_MAPPING_VOLUME_ID),
            (self.BLOCK_DEVICE_MAPPING_V2, self.BLOCK_DEVICE_MAPPING_VOLUME_ID),
        ):
            for mapping in properties[name] or ():
                if mapping.get(key):
                    yield mapping[key]

    def _changeable(self, after_props: Mapping[str, Any]) -> frozenset[str]:
        found = self.IN_SLEEP
        if after_props.get(self.USER_DATA_UPDATE_POLICY) == 'IGNORE':
            found |= {self.USER_DATA}
        # They may come from what is known only now, as the signals of another server.
        return found | {self.METADATA} if self._due() else found

    def handle_update(self, json_snippet: Any, tmpl_diff: Any, prop_diff: Any) -> Any:
        self._new_metadata = self.METADATA in prop_diff and self.asleep()
        if self._new_metadata:
            prop_diff = {key: prop_diff[key] for key in prop_diff if key != self.METADATA}
        return super().handle_update(json_snippet, tmpl_diff, prop_diff)

    def _forget(self) -> bool:
        if self._new_metadata:
            found = self.client_plugin().get_server(self.resource_id)
            self.client_plugin().meta_update(found, self.properties[self.METADATA])
        return super()._forget()

    # A server that sleeps may hold what the one in its place needs, and cannot have as well.

    def prepare_for_replace(self) -> None:
        """Free it first if the next server is to have the same volumes, ports or addresses.

        So it is at the start: then the next one is to run at once, in the same place. Heat would
        detach ports, which nova refuses while a server sleeps, and leave the volumes to one that
        could not be started. Without such things the server is freed when the next one is
        reserved.
        """
        if not self._has_never_run():
            super().prepare_for_replace()
            return
        definition = self.stack.defn.resource_definition(self.name)
        following = definition.properties(self.properties_schema, self.context)
        shared = set(self._owns(self.properties)) & set(self._owns(following))
        if shared or self._due():
            self._free(self.resource_id)

    def _has_never_run(self) -> bool:
        found = self._look() if self.lease_id() else None
        if found is None or self._status(found) not in self.ASLEEP | {_BROKEN}:
            return False
        return not getattr(found, _LAUNCHED, None)

    def _owns(self, properties: Mapping[str, Any]) -> Iterator[str]:
        yield from self._volume_ids(properties)
        for network in properties[self.NETWORKS] or ():
            for key in (self.NETWORK_PORT, self.NETWORK_FIXED_IP):
                if network.get(key):
                    yield network[key]

    def restore_prev_rsrc(self, convergence: bool = False) -> None:
        """Take the place of the next server again, after an update that is rolled back."""
        following = _asleep_in_its_place(self) if convergence else None
        if not following and not self.asleep():
            if not self._is_freed():
                super().restore_prev_rsrc(convergence)
            return
        if following:
            self._free(following)
        if not self.lease_id():
            self.attach_ports(self)

    def _is_freed(self) -> bool:
        """Whether it was freed in its sleep, and is reserved anew by the rollback."""
        return self.lease_id() is not None and self._look() is None

    def _free(self, server_id: str) -> None:
        with self.client_plugin().ignore_not_found:
            self.client().servers.delete(server_id)
            _until_gone(self.client_plugin(), server_id)

    # The other actions leave alone what sleeps.

    def handle_suspend(self) -> Any:
        return None if self.asleep() else super().handle_suspend()

    def check_suspend_complete(self, server_id: str | None) -> bool:
        return server_id is None or super().check_suspend_complete(server_id)

    def handle_resume(self) -> Any:
        return None if self.asleep() else super().handle_resume()

    def check_resume_complete(self, server_id: str | None) -> bool:
        return server_id is None or super().check_resume_complete(server_id)

    def handle_restore(self, defn: Any, restore_data: Any) -> Any:
        if not restore_data['resource_data'].get('snapshot_image_id'):
            return defn
        return super().handle_restore(defn, restore_data)


TYPES = {'OS::Climate::Server': Server}


def _asleep_in_its_place(previous: Server) -> str | None:
    """Give the id of the server that was reserved in the place of another."""
    if not previous.replaced_by:
        return None
    try:
        row = objects.Resource.get_obj(previous.context, previous.replaced_by)
    except exception.NotFound:
        return None
    asleep = any(each.key == tree.ASLEEP for each in row.data)
    return row.physical_resource_id if asleep else None


def _still_there(server_id: str) -> NoReturn:
    raise exception.Error(f'The reserved server {server_id} could not be freed in a minute.')


@tenacity.retry(
    stop=tenacity.stop_after_delay(60),
    wait=tenacity.wait_fixed(1),
    retry=tenacity.retry_if_result(lambda gone: not gone),
    retry_error_callback=lambda state: _still_there(state.args[1]),
)
def _until_gone(plugin: Any, server_id: str) -> bool:
    """Wait a little: heat has no second step for this (heat.engine.resource.prepare_for_replace),
    and waits for ports in the same way.
    """
    return plugin.check_delete_server_complete(server_id)
