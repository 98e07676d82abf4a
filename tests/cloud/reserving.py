# SPDX-License-Identifier: Apache-2.0
"""Reserved volumes of one person on the local cloud."""

import json
import uuid
from collections.abc import Callable
from typing import Any

from tests.cloud.people import Person, at, wait_for

RESERVED = 'lease-reserved'
#: The name of a backup that the end of a lease leaves begins with it.
PREFIX = 'reserved_'


class Reserving:
    """Makes reserved volumes, and cleans up after a test.

    :param volume_type: of every volume; None is the array that keeps no bytes
    """

    def __init__(self, person: Person, volume_type: str | None = None) -> None:
        self.person = person
        self.cinder = person.sdk.block_storage
        self.volume_type = volume_type
        self.names: list[str] = []
        self.leases: set[str] = set()

    def name(self) -> str:
        """Return a name for a volume that is cleaned up."""
        self.names.append(f'test-{uuid.uuid4().hex[:8]}')
        return self.names[-1]

    def post(self, hints: dict[str, Any], **volume: Any) -> Any:
        """POST /volumes with hints, just as a client sends it; return the response."""
        body = {
            'volume': {'name': self.name(), 'size': 1, 'volume_type': self.volume_type, **volume},
            'OS-SCH-HNT:scheduler_hints': hints,
        }
        return self.cinder.post('/volumes', json=body)

    def reserve(self, hints: dict[str, Any] | None = None, **params: Any) -> Any:
        """Reserve a volume in a lease of its own, and wait until the backend holds it.

        :param hints: other hints than those of a new lease
        :param params: of the lease; ``volume`` is what the body says of the volume
        """
        volume = params.pop('volume', {})
        params = {'name': f'lease-{uuid.uuid4().hex[:8]}', 'end': at(hours=3), **params}
        hints = hints or {'reserved': 'True', 'lease_params': json.dumps(params)}
        found = self.wait(self.begin(hints, **volume), RESERVED, 'available')
        self.leases.add(self.lease_of(found.id).id)
        return found

    def begin(self, hints: dict[str, Any], **volume: Any) -> str:
        """Ask for a volume with hints; return its id at once."""
        response = self.post(hints, **volume)
        assert response.status_code == 202, response.text
        return str(response.json()['volume']['id'])

    def get(self, volume_id: str) -> Any:
        return self.cinder.get_volume(volume_id)

    def wait(self, volume_id: str, *statuses: str) -> Any:
        """Wait until a volume has one of these statuses; an error nobody waits for fails."""

        def look() -> Any:
            volume = self.get(volume_id)
            if volume.status == 'error' and 'error' not in statuses:
                messages = self.cinder.get('/messages', params={'resource_uuid': volume_id})
                raise AssertionError(f'volume {volume_id} is in error: {messages.text}')
            return volume if volume.status in statuses else None

        return wait_for(look, f'volume {volume_id} in {statuses}')

    def wait_gone(self, volume_id: str) -> None:
        """Wait until Cinder does not know a volume any more."""
        wait_for(lambda: self.cinder.find_volume(volume_id) is None, f'volume {volume_id} gone')

    def lease_of(self, volume_id: str) -> Any:
        return self.person.lease_of(volume_id)

    def wait_lease(self, lease_id: str, *statuses: str) -> Any:
        return self.person.wait_lease(lease_id, *statuses)

    def act(self, volume_id: str, **action: Any) -> Any:
        """POST an action on a volume; return the response."""
        return self.cinder.post(f'/volumes/{volume_id}/action', json=action)

    def quota(self) -> tuple[int, int]:
        """Return what Cinder counts for the project: volumes, GiB."""
        usage = self.cinder.get_quota_set(self.person.sdk.current_project_id, usage=True).usage
        return usage['volumes'], usage['gigabytes']

    def held(self) -> tuple[int | None, int | None]:
        """Return what Climate counts for the project: reserved volumes, GiB."""
        used = self.person.held()
        return used['reserved_volumes'], used['reserved_gigabytes']

    def exists(self, name: str) -> bool:
        """Tell whether Cinder knows a volume of this name."""
        return name in {volume.name for volume in self.cinder.volumes(details=False)}

    def clean(self, *first: Callable[[], None]) -> None:
        """Delete what the test reserved, with its leases.

        :param first: what else must go before
        """
        for lease_id in self.leases:
            self.person.leases.delete(lease_id, ignore_missing=True)
        for step in first:
            step()
        for volume in [v for v in self.cinder.volumes() if v.name in self.names]:
            for snapshot in self.cinder.snapshots(volume_id=volume.id):
                self._delete_snapshot(snapshot.id)
            self._delete(volume.id)
        for backup in self.cinder.backups():
            if backup.name.removeprefix(PREFIX) in self.names:
                self.delete_backup(backup.id)
        # The next test counts what is reserved.
        for lease_id in self.leases:
            self.person.wait_lease_gone(lease_id)

    def delete_backup(self, backup_id: str) -> None:
        """Delete a backup and wait until Cinder does not know it."""
        self.cinder.delete_backup(backup_id)
        wait_for(lambda: self.cinder.find_backup(backup_id) is None, f'backup {backup_id} gone')

    def _delete_snapshot(self, snapshot_id: str) -> None:
        self.cinder.delete_snapshot(snapshot_id)
        wait_for(lambda: self.cinder.find_snapshot(snapshot_id) is None, 'snapshot gone')

    def _delete(self, volume_id: str) -> None:
        # Refused as long as the end of its lease is at work on it.
        wait_for(
            lambda: self.cinder.delete(f'/volumes/{volume_id}').status_code == 404,
            f'volume {volume_id} gone',
        )
