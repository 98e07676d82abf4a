# SPDX-License-Identifier: Apache-2.0
"""Reserved servers of one user on the local cloud."""

import functools
import json
import uuid
from typing import Any

from tests.cloud.people import Person, at, wait_for


class Booking:
    """Boots reserved servers, and cleans up after a test."""

    def __init__(self, person: Person) -> None:
        self.person = person
        self.names: list[str] = []
        #: Leases that were made before their servers.
        self.leases: set[str] = set()

    @functools.cached_property
    def flavor(self) -> Any:
        return self.person.sdk.compute.find_flavor('m1.tiny', ignore_missing=False)

    @functools.cached_property
    def image(self) -> Any:
        return self.person.sdk.image.find_image('cirros', ignore_missing=False)

    @functools.cached_property
    def network(self) -> Any:
        return self.person.sdk.network.find_network('shared', ignore_missing=False)

    def post(self, hints: dict[str, Any], **server: Any) -> Any:
        """POST /servers with hints, just as a client sends it; return the response."""
        name = f'test-{uuid.uuid4().hex[:8]}'
        self.names.append(name)
        body = {
            'server': {
                'name': name,
                'flavorRef': self.flavor.id,
                'imageRef': self.image.id,
                'networks': [{'uuid': self.network.id}],
                **server,
            },
            'os:scheduler_hints': hints,
        }
        return self.person.sdk.compute.post('/servers', json=body, microversion='2.96')

    def reserve(self, hints: dict[str, Any] | None = None, **params: Any) -> Any:
        """Boot a reserved server and wait until it is RESERVED (or awake already)."""
        params = {'name': f'lease-{uuid.uuid4().hex[:8]}', 'end': at(hours=3), **params}
        hints = hints or {'reserved': 'True', 'lease_params': json.dumps(params)}
        return self.wait(self.begin(hints), 'RESERVED', 'ACTIVE')

    def reserve_with_volumes(self, lease_id: str, *devices: dict[str, Any], **server: Any) -> str:
        """Boot a server with volumes in a lease; return its id when it is RESERVED."""
        for device in devices:
            device |= {'source_type': 'volume', 'destination_type': 'volume'}
        hints = {'reserved': 'True', 'lease_id': lease_id}
        server_id = self.begin(hints, block_device_mapping_v2=list(devices), **server)
        self.wait(server_id, 'RESERVED')
        return server_id

    def begin(self, hints: dict[str, Any], **server: Any) -> str:
        """Boot a server with hints; return its id at once."""
        response = self.post(hints, **server)
        assert response.status_code == 202, response.text
        return str(response.json()['server']['id'])

    def wait(self, server_id: str, *statuses: str) -> Any:
        """Wait until a server has one of these statuses; an ERROR not among them fails."""

        def look() -> Any:
            server = self.person.sdk.compute.get_server(server_id)
            if server.status == 'ERROR' and 'ERROR' not in statuses:
                raise AssertionError(f'{server.name} is in ERROR: {server.fault}')
            return server if server.status in statuses else None

        return wait_for(look, f'server {server_id} in {statuses}')

    def wait_gone(self, server_id: str) -> None:
        """Wait until Nova does not know a server any more."""
        compute = self.person.sdk.compute
        wait_for(
            lambda: compute.find_server(server_id, ignore_missing=True) is None,
            f'server {server_id} gone',
        )

    def lease_of(self, server_id: str) -> Any:
        return self.person.lease_of(server_id)

    def wait_lease(self, lease_id: str, *statuses: str) -> Any:
        return self.person.wait_lease(lease_id, *statuses)

    def wake_ups(self, server_id: str) -> int:
        """Count how often a server was woken, by its list of actions."""
        actions = self.person.sdk.compute.server_actions(server_id)
        return sum(action.action == 'wake_up' for action in actions)

    def clean(self) -> None:
        """Delete what the test booted, with its leases, and wait until it is gone."""
        compute, leases = self.person.sdk.compute, {*self.leases}
        names = tuple(self.names)
        servers = [s for s in compute.servers(details=False) if s.name.startswith(names)]
        for server in servers:
            leases |= {each.id for each in self.person.leases.list(resource_id=server.id)}
        for lease_id in leases:
            self.person.leases.delete(lease_id, ignore_missing=True)
        for server in servers:
            compute.delete_server(server.id, ignore_missing=True)
        for server in servers:
            self.wait_gone(server.id)
        for lease_id in leases:
            self.person.wait_lease_gone(lease_id)
