# SPDX-License-Identifier: Apache-2.0
"""Leases of servers, volumes and stacks, all of one project."""

import dataclasses
import json
import uuid
from typing import Any

from openstack import exceptions

from tests.cloud.booking import Booking
from tests.cloud.people import Person, at
from tests.cloud.reserving import RESERVED, Reserving
from tests.cloud.stacking import Stacking
from tests.cloud.templates import WITH_DISK, template

SERVERS, VOLUMES, PAIRS, STACKS, MADE = 16, 3, 6, 3, 4

#: The event by which a nova-compute notes that it starts a server.
BUILD = 'compute__do_build_and_run_instance'
#: The event by which it notes that the server is RESERVED again.
FAILURE = 'compute_wake_up'


@dataclasses.dataclass
class Reserved:
    """Leases that have not started, and the servers in them.

    :param leases: the ids of the leases
    :param servers: the ids of the servers
    :param made_later: the ids of the leases whose server is made when they are about to start
    """

    leases: list[str]
    servers: list[str]
    made_later: list[str]


class Reservations:
    """Reserves servers, volumes, servers with volumes, stacks, and servers that are made later.

    All is asked for before anything is waited for.
    """

    def __init__(self, person: Person) -> None:
        self.person = person
        self.servers, self.volumes = Booking(person), Reserving(person)
        self.stacks = Stacking(person)

    def make(self) -> Reserved:
        """Make the leases, each of its own, and wait until they hold everything."""
        stacks = [self._begin_stack() for _ in range(STACKS)]
        volumes = [self.volumes.begin(_own_lease()) for _ in range(VOLUMES + PAIRS)]
        servers = [self.servers.begin(_own_lease()) for _ in range(SERVERS)]
        for each in volumes:
            self.volumes.wait(each, RESERVED)
        leases = [self.person.lease_of(each).id for each in volumes]
        pairs = [
            self.servers.begin(
                {'reserved': 'True', 'lease_id': lease_id},
                block_device_mapping_v2=_devices(self.servers.image.id, volume),
            )
            for volume, lease_id in zip(volumes[:PAIRS], leases, strict=False)
        ]
        for each in (*servers, *pairs):
            self.servers.wait(each, 'RESERVED')
        leases += [self.person.lease_of(each).id for each in servers]
        for stack_id, lease_id in stacks:
            self.stacks.wait(stack_id, 'CREATE_COMPLETE')
            leases.append(lease_id)
            servers += self.stacks.ids(stack_id, 'OS::Nova::Server')
        later = [self._lease_later() for _ in range(MADE)]
        return Reserved(leases + later, servers + pairs, later)

    def _lease_later(self) -> str:
        """Make a lease whose server is made when it is about to start, of the same name."""
        name, booking = f'made-{uuid.uuid4().hex[:8]}', self.servers
        server = {
            'name': name,
            'flavorRef': booking.flavor.id,
            'imageRef': booking.image.id,
            'networks': [{'uuid': booking.network.id}],
        }
        lease = self.person.leases.create(
            name,
            kind='scheduled',
            start=at(hours=1),
            end=at(hours=3),
            reservations=[{'resource_type': 'virtual:instance', 'server': server}],
        )
        return str(lease.id)

    def named(self, name: str) -> list[str]:
        """Return the ids of the servers of a name."""
        found = self.person.sdk.compute.servers(details=False, name=f'^{name}$')
        return [each.id for each in found]

    def woken(self, server_id: str) -> list[str | None]:
        """Return how each start of a server by a nova-compute went, the first one first.

        None is one whose nova-compute was killed on the way. A wake-up that no nova-compute has
        begun has no event, see nova_ext/api/wake_up.py.
        """
        path = f'/servers/{server_id}/os-instance-actions'
        actions = self._read(path, 'instanceActions')
        # Nova lists the last one first, and tells times in seconds.
        wake_ups = [each['request_id'] for each in actions[::-1] if each['action'] == 'wake_up']
        starts = []
        for each in wake_ups:
            events = self._read(f'{path}/{each}', 'instanceAction')['events']
            results = {event['event']: event['result'] for event in events}
            if BUILD in results:
                began = min(event['start_time'] for event in events)
                starts.append((began, results.get(FAILURE, results[BUILD])))
        return [result for _, result in sorted(starts, key=lambda start: start[0])]

    def _read(self, path: str, key: str) -> Any:
        response = self.person.sdk.compute.get(path, microversion='2.96')
        assert response.status_code == 200, response.text
        return response.json()[key]

    def describe(self, reservation: Any) -> list[str]:
        """Return what Nova, Cinder or Heat says of a reserved resource, in lines."""
        resource_id, sdk = reservation.resource_id, self.person.sdk
        try:
            if reservation.resource_type == 'virtual:instance':
                server = sdk.compute.get_server(resource_id)
                return [f'{server.status}, task {server.task_state}, updated {server.updated_at}']
            if reservation.resource_type == 'virtual:volume':
                volume = sdk.block_storage.get_volume(resource_id)
                return [f'{volume.status}, updated {volume.updated_at}']
        except exceptions.NotFoundException as exc:
            return [str(exc)]
        return [
            f'{each["resource_name"]} is {each["resource_status"]} since {each["updated_time"]}: '
            f'{each["resource_status_reason"]}'
            for each in self.stacks.resources(resource_id)
        ]

    def left(self) -> dict[str, list[str]]:
        """Name what the project has of servers, volumes, stacks and ports."""
        sdk, project_id = self.person.sdk, self.person.sdk.current_project_id
        kinds = {
            'servers': sdk.compute.servers(details=False),
            'volumes': sdk.block_storage.volumes(details=False),
            'stacks': sdk.orchestration.stacks(),
            'ports': sdk.network.ports(project_id=project_id),
        }
        return {kind: [each.id for each in found] for kind, found in kinds.items()}

    def clean(self) -> None:
        """Delete what is left."""
        self.stacks.clean()
        self.volumes.clean(self.servers.clean)

    def _begin_stack(self) -> tuple[str, str]:
        lease_id = self.stacks.lease()
        return self.stacks.begin(template(WITH_DISK), lease_id), lease_id


def _own_lease() -> dict[str, str]:
    """Return the hints that make a lease of its own, which starts in an hour."""
    params = {'name': f'lease-{uuid.uuid4().hex[:8]}', 'start': at(hours=1), 'end': at(hours=3)}
    return {'reserved': 'True', 'lease_params': json.dumps(params)}


def _devices(image_id: str, volume_id: str) -> list[dict[str, Any]]:
    """Return the block devices of a server that boots from an image and has a data disk."""
    root = {'source_type': 'image', 'destination_type': 'local', 'uuid': image_id}
    data = {'source_type': 'volume', 'destination_type': 'volume', 'uuid': volume_id}
    return [{**root, 'boot_index': 0}, {**data, 'boot_index': -1}]
