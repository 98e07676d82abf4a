# SPDX-License-Identifier: Apache-2.0
"""The main job, shown step by step: reserve a server and a volume, see them start and end.

The second part is a stack, made in the idle time of the first: :mod:`climate_cloud.demo_stack`.

What a user does is done as an ordinary member, with the commands that a person would type. The
administrator only looks: at the allocation in Placement and at the compute host.
"""

import datetime
import json
import time
from typing import Any

import openstack

from climate_cloud import bus, content
from climate_cloud.cloud import Cloud
from climate_cloud.demo_stack import StackPart
from climate_cloud.person import CommandFailed
from climate_cloud.rabbitmq import NOTIFICATIONS
from climate_cloud.showing import FAR, DemoFailed, Part, check, say, title, wait, wait_until

SERVER, OTHER, VOLUME, LEASE = 'vm1', 'vm2', 'v1', 'lease1'
FLAVOR = 'm1.xlarge'


def main(cloud: Cloud, start_in: int, length: int) -> int:
    """Run the demo; the last line printed says how it went.

    :param start_in: seconds to the start of a lease when all before it was seen
    :param length: seconds to its end when its start was seen
    :returns: exit status
    """
    began = time.monotonic()
    try:
        with bus.listening(cloud.rabbitmq.url(vhost=NOTIFICATIONS)) as listener:
            Demo(cloud, listener, start_in, length).run()
    except (DemoFailed, CommandFailed, openstack.exceptions.SDKException) as error:
        say(f'demo: failed: {error}')
        return 1
    say(f'demo: passed ({time.monotonic() - began:.0f} s)')
    return 0


class Demo(Part):
    """One run."""

    def __init__(self, cloud: Cloud, listener: bus.Listener, start_in: int, length: int) -> None:
        super().__init__(cloud, listener)
        self.start_in = start_in
        self.length = length
        self.stack = StackPart(cloud, listener)
        self.zone = content.zone(f'compute{cloud.settings.computes}')

    def run(self) -> None:
        self.clean()
        self.reserve()
        self.look_at_reserved()
        self.reserve_volume()
        self.refuse_another()
        self.look_at_lease()
        # Heat works on it while the first lease starts.
        self.stack.reserve()
        self.start()
        self.stack.look_at_reserved()
        self.end()
        self.stack.start(self.start_in)
        self.stack.end(self.length)

    def clean(self) -> None:
        """Remove what an interrupted run left."""
        self.stack.clean()
        compute = self.member.sdk.compute
        for lease in self.leases():
            self.member.leases.delete(lease.id, ignore_missing=True)
        left = [one for one in compute.servers() if one.name in (SERVER, OTHER)]
        for server in left:
            compute.delete_server(server, ignore_missing=True)
        for server in left:
            wait(lambda server=server: self.gone(server.id), f'{server.name} gone')
        cinder = self.member.sdk.block_storage
        for volume in [one for one in cinder.volumes() if one.name == VOLUME]:
            # Refused as long as the end of its lease is at work on it.
            path = f'/volumes/{volume.id}'
            wait(lambda path=path: cinder.delete(path).status_code == 404, f'{VOLUME} gone')
        wait(lambda: not self.leases(), f'{LEASE} gone')

    def reserve(self) -> None:
        title(f'1. Reserve a server: {SERVER} from an hour from now, for an hour')
        starts = datetime.datetime.now(datetime.UTC).replace(microsecond=0) + FAR
        times = {'start': f'{starts:%F %T}', 'end': f'{starts + FAR:%F %T}'}
        self.member.types(
            'openstack', 'server', 'create', '--flavor', FLAVOR, '--image', content.IMAGE,
            '--network', content.NETWORK, '--availability-zone', self.zone,
            '--hint', 'reserved=True',
            '--hint', f'lease_params={json.dumps({"name": LEASE, **times})}',
            SERVER, '-c', 'id', '-c', 'name', '-c', 'status',
        )  # fmt: skip
        self.server_id = self.member.sdk.compute.find_server(SERVER, ignore_missing=False).id
        wait(lambda: self.status() in ('RESERVED', 'ERROR'), f'{SERVER} is RESERVED')
        fault = self.fault(self.server_id)
        check(self.status() == 'RESERVED', f'{SERVER} is RESERVED {fault}'.rstrip())

    def look_at_reserved(self) -> None:
        columns = ('Name', 'Status', 'Power State', 'Networks')
        options = [word for column in columns for word in ('-c', column)]
        self.member.types('openstack', 'server', 'list', '--long', '--name', SERVER, *options)
        server = self.member.sdk.compute.get_server(self.server_id)
        check(server.power_state == 0, 'its power state is NOSTATE')
        addresses = [one['addr'] for one in server.addresses.get(content.NETWORK, [])]
        check(addresses, f'it has the address {", ".join(addresses)} on the network')
        self.host = self.admin.sdk.compute.get_server(self.server_id).compute_host
        check(self.host, f'nova-scheduler chose {self.host}')
        check(server.launched_at is None, 'it was never launched')
        check(not self.spawned(), f'the hypervisor of {self.host} has no guest for it')
        resources = self.allocation()
        check(resources, f'Placement holds {resources} for it')

    def reserve_volume(self) -> None:
        self.member.types(
            'openstack', 'volume', 'create', '--size', '1', '--hint', 'reserved=True',
            '--hint', f'lease_id={self.lease().id}', VOLUME,
            '-c', 'id', '-c', 'name', '-c', 'size',
        )  # fmt: skip
        cinder = self.member.sdk.block_storage
        self.volume_id = cinder.find_volume(VOLUME, ignore_missing=False).id
        wait(lambda: self.volume_status() not in (None, 'creating'), f'{VOLUME} is reserved')
        check(self.volume_status() == 'lease-reserved', f'{VOLUME} is lease-reserved')
        host = self.admin.sdk.block_storage.get_volume(self.volume_id).host
        check(host, f'cinder-scheduler chose {host}, where nothing is made yet')

    def refuse_another(self) -> None:
        sdk = self.member.sdk
        say(f'  {OTHER} asks for the same capacity: {FLAVOR} in {self.zone}, not reserved ...')
        other = sdk.compute.create_server(
            name=OTHER,
            flavor_id=sdk.compute.find_flavor(FLAVOR).id,
            image_id=sdk.image.find_image(content.IMAGE).id,
            networks=[{'uuid': sdk.network.find_network(content.NETWORK).id}],
            availability_zone=self.zone,
        )
        wait(lambda: sdk.compute.get_server(other).status in ('ERROR', 'ACTIVE'), 'an answer')
        reason = self.fault(other.id)
        sdk.compute.delete_server(other)
        check('No valid host' in reason, f'it is refused: {reason}')

    def look_at_lease(self) -> None:
        title('2. The lease')
        self.member.types('openstack', 'lease', 'show', LEASE)
        lease = self.lease()
        check(lease.status == 'PENDING', f'{LEASE} is PENDING')
        found = {(each.resource_type, each.resource_id) for each in lease.reservations}
        check(len(found) == 2, 'it has two reservations')
        for mine in (('virtual:instance', self.server_id), ('virtual:volume', self.volume_id)):
            check(mine in found, f'of {mine[0]} {mine[1]}')
        for event in lease.events:
            say(f'  event {event.event_type:18} {event.time}')
        kinds = {event.event_type for event in lease.events}
        check({'start_lease', 'end_lease'} <= kinds, 'its start and its end are planned')
        self.hear('lease.create', lease.id, 'PENDING')

    def start(self) -> None:
        title('4. The start: brought forward, then by itself')
        self.bring_forward(LEASE, 'start', self.start_in)
        wait_until(self.lease().start_date, 'the start')
        seen: list[str] = []

        def active() -> bool:
            status = self.status()
            if status not in seen:
                seen.append(status)
                say(f'  {datetime.datetime.now(datetime.UTC):%T.%f}  {SERVER} is {status}')
            return status in ('ACTIVE', 'ERROR')

        wait(active, f'{SERVER} ACTIVE', pause=0.2)
        check(seen[-1] == 'ACTIVE', f'{SERVER} is ACTIVE {self.fault(self.server_id)}'.rstrip())
        lease = self.lease()
        wait(lambda: self.lease().status != 'STARTING', 'the lease has started')
        check(self.lease().status == 'ACTIVE', f'{LEASE} is ACTIVE')
        check(self.volume_status() == 'available', f'{VOLUME} is available, made before {SERVER}')
        self.hear('instance.create.start', self.server_id, 'building')
        self.hear('instance.create.end', self.server_id, 'active')
        self.hear('lease.event.start_lease', lease.id, 'ACTIVE')
        check(self.spawned(), f'the hypervisor of {self.host} runs its guest')
        check(self.allocation(), 'Placement holds the same allocation')

    def end(self) -> None:
        title('6. The end: brought forward, then by itself')
        self.bring_forward(LEASE, 'end', self.length)
        lease_id = self.lease().id
        wait_until(self.lease().end_date, 'the end')
        wait(lambda: self.gone(self.server_id), f'{SERVER} gone')
        check(True, f'{SERVER} was deleted, the end action of this reservation')
        wait(lambda: self.volume_status() is None, f'{VOLUME} gone')
        check(True, f'{VOLUME} was deleted after it')
        wait(lambda: self.lease().status != 'TERMINATING', 'the lease has ended')
        columns = [word for column in ('name', 'status', 'end_date') for word in ('-c', column)]
        self.member.types('openstack', 'lease', 'show', LEASE, *columns)
        check(self.lease().status == 'TERMINATED', f'{LEASE} is TERMINATED')
        self.hear('instance.delete.end', self.server_id, 'deleted')
        self.hear('lease.event.end_lease', lease_id, 'TERMINATED')
        check(not self.allocation(), 'Placement is free again')

    # What is looked at

    def status(self) -> str:
        return self.member.sdk.compute.get_server(self.server_id).status

    def fault(self, server_id: str) -> str:
        """Say what nova says of a server that failed; nothing is an empty text."""
        return (self.member.sdk.compute.get_server(server_id).fault or {}).get('message', '')

    def gone(self, server_id: str) -> bool:
        return self.member.sdk.compute.find_server(server_id, ignore_missing=True) is None

    def volume_status(self) -> str | None:
        """Say how the volume is; None is gone."""
        volume = self.member.sdk.block_storage.find_volume(self.volume_id)
        return volume.status if volume else None

    def leases(self) -> list[Any]:
        return [one for one in self.member.leases.list() if one.name == LEASE]

    def lease(self) -> Any:
        return self.leases()[-1]

    def allocation(self) -> str:
        """Say what Placement holds for the server; nothing is an empty text."""
        path = f'/allocations/{self.server_id}'
        found = self.admin.sdk.placement.get(path, microversion='1.28').json()['allocations']
        resources = [
            f'{n} {name}' for one in found.values() for name, n in one['resources'].items()
        ]
        return ', '.join(resources)

    def spawned(self) -> bool:
        """Tell whether nova-compute has started a guest for the server, by its log."""
        lines = self.cloud.processes.log(f'nova-{self.host}').read_text(errors='replace')
        text = 'to spawn the instance on the hypervisor'
        return any(self.server_id in line and text in line for line in lines.splitlines())
