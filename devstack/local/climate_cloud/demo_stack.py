# SPDX-License-Identifier: Apache-2.0
"""The second part of the demo: a stack is reserved, wakes in order, and is gone at the end.

The template is one of the user's guide, which knows nothing of leases.
"""

import datetime
from typing import Any

from climate_cloud.settings import ROOT
from climate_cloud.showing import FAR, DemoFailed, Part, check, say, title, wait, wait_until

STACK, LEASE = 'group1', 'lease2'
TEMPLATE = ROOT / 'doc' / 'source' / 'user' / 'templates' / 'working-group.yaml'
ENVIRONMENT = """\
parameter_defaults:
  climate_lease_id: {}
"""
#: Seconds that a slow machine may need for what Heat does with the stack.
SLOW = 900
#: What a status that the user did not ask for means.
MEANINGS = {'UPDATE_IN_PROGRESS': ': Heat updates a stack to start its members'}
SERVERS, VOLUMES, NETWORKS = 'OS::Nova::Server', 'OS::Cinder::Volume', 'OS::Neutron::Net'


class StackPart(Part):
    """A network, a volume, a server that boots from it, and a group of two."""

    def clean(self) -> None:
        """Remove what an interrupted run left."""
        heat = self.member.sdk.orchestration
        for stack in [one for one in heat.stacks() if one.name == STACK]:
            heat.delete_stack(stack)
        wait(lambda: heat.find_stack(STACK) is None, f'{STACK} gone')
        for lease in self.leases():
            self.member.leases.delete(lease.id, ignore_missing=True)
        wait(lambda: not self.leases(), f'{LEASE} gone')

    def reserve(self) -> None:
        """Reserve the stack, in a lease of its own."""
        title(f'3. Reserve a stack: {STACK}, from an hour from now, for an hour')
        seconds = FAR.total_seconds()
        self.member.types(
            'openstack', 'lease', 'create', LEASE, '--start', f'+{seconds:.0f}s',
            '--for', f'{seconds:.0f}s', '-c', 'id', '-c', 'name', '-c', 'status',
        )  # fmt: skip
        environment = self.cloud.settings.data / 'lease.yaml'
        environment.write_text(ENVIRONMENT.format(self.lease().id))
        say(f'  {environment.name} names the lease:')
        for line in environment.read_text().splitlines():
            say(f'    {line}')
        self.member.types(
            'openstack', 'stack', 'create', '-t', str(TEMPLATE), '-e', str(environment), STACK,
            '-c', 'id', '-c', 'stack_name',
        )  # fmt: skip
        self.stack_id = self.member.sdk.orchestration.find_stack(STACK, ignore_missing=False).id

    def look_at_reserved(self) -> None:
        title('5. The stack, asleep')
        self.wait_for('CREATE_COMPLETE')
        servers, volumes = self.servers(), self.volumes()
        reserved = self.lease().reservations
        check(set(servers.values()) == {'RESERVED'}, f'its {len(servers)} servers are RESERVED')
        check(set(volumes.values()) == {'lease-reserved'}, 'its volume is lease-reserved')
        kinds = [each.resource_type for each in reserved]
        members = kinds.count('virtual:instance'), kinds.count('virtual:volume')
        expected = (len(servers), len(volumes))
        check(members == expected, f'{LEASE} has {members[0]} servers and {members[1]} volume')
        check('virtual:stack' in kinds, 'and the stack itself, which wakes them')
        outputs = self.outputs()
        check(outputs['front'], f'its front will have the address {outputs["front"]}')

    def start(self, seconds: int) -> None:
        """Bring the start forward to so many seconds from now, and see it."""
        title('7. The start of the stack: brought forward, then by itself')
        self.bring_forward(LEASE, 'start', seconds)
        wait_until(self.lease().start_date, 'the start')
        self.wait_for('UPDATE_COMPLETE')
        self.member.types(
            'openstack', 'stack', 'resource', 'list', '-n', '2', STACK,
            '-c', 'resource_name', '-c', 'resource_type', '-c', 'resource_status',
        )  # fmt: skip
        awake = self.awake()
        say(f'  Heat woke {", then ".join(awake)}')
        check(awake == ['disk', 'front', 'group'], 'that is the order in which they are needed')
        check(set(self.servers().values()) == {'ACTIVE'}, 'all servers are ACTIVE')
        check(self.outputs()['disk'] == 'in-use', 'the outputs are fresh: the volume is in-use')
        wait(lambda: self.lease().status != 'STARTING', 'the lease has started')
        check(self.lease().status == 'ACTIVE', f'{LEASE} is ACTIVE')
        self.hear('lease.event.start_lease', self.lease().id, 'ACTIVE')

    def end(self, seconds: int) -> None:
        """Bring the end forward to so many seconds from now, and see it."""
        title('8. The end of the stack: brought forward, then by itself')
        sdk = self.member.sdk
        lease_id, servers, networks = self.lease().id, self.servers(), self._ids(NETWORKS)
        self.bring_forward(LEASE, 'end', seconds)
        wait_until(self.lease().end_date, 'the end')
        wait(lambda: sdk.orchestration.find_stack(STACK) is None, f'{STACK} gone', SLOW)
        check(True, f'{STACK} was deleted, the end action of this reservation')
        check(not {one.id for one in sdk.compute.servers()} & set(servers), 'with its servers')
        check(not {one.id for one in sdk.network.networks()} & networks, 'and its network')
        wait(lambda: self.lease().status != 'TERMINATING', 'the lease has ended')
        check(self.lease().status == 'TERMINATED', f'{LEASE} is TERMINATED')
        self.hear('lease.event.end_lease', lease_id, 'TERMINATED')

    # What is looked at

    def wait_for(self, status: str) -> None:
        """Wait until the stack has a status, or has failed; show each."""
        seen: list[str] = []

        def reached() -> bool:
            stack = self.member.sdk.orchestration.get_stack(self.stack_id)
            if stack.status not in seen:
                seen.append(stack.status)
                now, meaning = datetime.datetime.now(datetime.UTC), MEANINGS.get(stack.status, '')
                say(f'  {now:%T}  {STACK} is {stack.status}{meaning}')
            if stack.status.endswith('_FAILED'):
                raise DemoFailed(f'{STACK}: {stack.status_reason}')
            if stack.status.startswith('DELETE_'):
                raise DemoFailed(f'{STACK} is {stack.status} already')
            return stack.status == status

        wait(reached, f'{STACK} {status}', SLOW)
        check(True, f'{STACK} is {status}')

    def leases(self) -> list[Any]:
        return [one for one in self.member.leases.list() if one.name == LEASE]

    def lease(self) -> Any:
        return self.leases()[-1]

    def _ids(self, kind: str) -> set[str]:
        path = f'/stacks/{STACK}/{self.stack_id}/resources?nested_depth=2'
        resources = self.member.sdk.orchestration.get(path).json()['resources']
        return {
            each['physical_resource_id'] for each in resources if each['resource_type'] == kind
        }

    def servers(self) -> dict[str, str]:
        """Return the statuses of the servers of the stack, nested ones too, by their ids."""
        mine = self._ids(SERVERS)
        found = self.member.sdk.compute.servers()
        return {one.id: one.status for one in found if one.id in mine}

    def volumes(self) -> dict[str, str]:
        mine = self._ids(VOLUMES)
        found = self.member.sdk.block_storage.volumes()
        return {one.id: one.status for one in found if one.id in mine}

    def outputs(self) -> dict[str, Any]:
        stack = self.member.sdk.orchestration.get_stack(self.stack_id)
        return {each['output_key']: each.get('output_value') for each in stack.outputs}

    def awake(self) -> list[str]:
        """Name what the stack has woken, in this order."""
        path = f'/stacks/{STACK}/{self.stack_id}/events?sort_dir=asc'
        events = self.member.sdk.orchestration.get(path).json()['events']
        return [
            each['resource_name']
            for each in events
            if each['resource_status'] == 'UPDATE_COMPLETE' and each['resource_name'] != STACK
        ]
