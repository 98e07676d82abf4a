# SPDX-License-Identifier: Apache-2.0
"""Reserved stacks of one person on the local cloud."""

import contextlib
import pathlib
import uuid
from collections.abc import Iterator
from typing import Any

from openstack import exceptions

from tests.cloud.people import Person, at, wait_for


class Stacking:
    """Makes stacks and leases, and cleans up after a test."""

    def __init__(self, person: Person) -> None:
        self.person = person
        self.heat = person.sdk.orchestration
        self.stacks: list[str] = []
        self.leases: list[str] = []

    # Leases.

    def lease(self, **terms: Any) -> str:
        """Make a lease that starts in an hour; return its id."""
        terms = {'start': at(hours=1), 'end': at(hours=3), **terms}
        made = self.person.leases.create(f'lease-{uuid.uuid4().hex[:8]}', **terms)
        self.leases.append(made.id)
        return made.id

    def start(self, lease_id: str) -> None:
        """Let it start now, and wait until all that it holds has started."""
        self.person.leases.update(lease_id, start='now')
        self.wait_lease(lease_id, 'ACTIVE')

    def end(self, lease_id: str) -> None:
        self.person.leases.end(lease_id)
        self.wait_lease(lease_id, 'TERMINATED')

    def wait_lease(self, lease_id: str, *statuses: str) -> Any:
        return self.person.wait_lease(lease_id, *statuses)

    def wait_filled(self, stack_id: str) -> None:
        """Wait until a stack that is to be held at once is filled."""
        self.wait(stack_id, 'UPDATE_COMPLETE')

    def wait_held(self, lease_id: str, *members: str) -> None:
        """Wait until a lease holds one stack with a volume and these, all active."""
        wanted = sorted(['virtual:stack', 'virtual:volume', *members])

        def look() -> bool:
            found = self.person.leases.get(lease_id).reservations
            return wanted == sorted(
                each.resource_type for each in found if each.status == 'active'
            )

        wait_for(look, f'{wanted} in lease {lease_id}')

    def wait_deleted(self, lease_id: str) -> Any:
        """Wait until a lease has ended that was deleted; return it."""

        def look() -> Any:
            leases = self.person.leases.list(deleted=True)
            found = [each for each in leases if each.id == lease_id]
            return found[0] if found and found[0].status == 'TERMINATED' else None

        return wait_for(look, f'lease {lease_id} deleted')

    def order(self, text: str, **more: Any) -> tuple[str, str]:
        """Make a lease that has a stack made from a template; ``terms`` are those of the lease.

        :returns: the ids of the lease and of the stack
        """
        terms = more.pop('terms', {})
        lease_id = self.lease(reservations=[self.wanted(text, **more)], **terms)
        stack_id = str(self.stack_of(lease_id).resource_id)
        self.stacks.append(stack_id)
        return lease_id, stack_id

    def wanted(self, text: Any, **more: Any) -> dict[str, Any]:
        """Return a reservation of a stack that is to be made, by a name of its own."""
        name = f'test-{uuid.uuid4().hex[:8]}'
        return {'resource_type': 'virtual:stack', 'name': name, 'template': text, **more}

    def stack_of(self, lease_id: str) -> Any:
        """Return the reservation of the stack that a lease holds; fail if there is not one."""
        found = self.person.leases.get(lease_id).reservations
        (stack,) = [each for each in found if each.resource_type == 'virtual:stack']
        return stack

    def at_end(self, lease_id: str, on_end: str) -> None:
        """Choose what happens to the stack of a lease at its end."""
        own = self.stack_of(lease_id)
        self.person.leases.update_reservation(lease_id, own.id, on_end=on_end)

    def wait_trouble(self, lease_id: str, words: str) -> Any:
        """Wait until a lease says with these words what could not be started; return it."""

        def look() -> Any:
            lease = self.person.leases.get(lease_id)
            return lease if words in (lease.status_reason or '') else None

        return wait_for(look, f'{words!r} in the reason of lease {lease_id}')

    def trouble(self, lease_id: str) -> list[Any]:
        """Return what had to be tried again in a lease, or failed, other than by a slow cloud."""
        history = self.person.leases.history(lease_id)
        slow = 'cannot be reached'
        bad = [each for each in history if each.result in ('retry', 'failed')]
        return [each for each in bad if slow not in (each.reason or '')]

    # Stacks.

    def write(self, directory: pathlib.Path, lease_id: str) -> pathlib.Path:
        """Write the environment that reserves a whole stack, as the guide says."""
        file = directory / 'lease.yaml'
        file.write_text(f'parameter_defaults:\n  climate_lease_id: {lease_id}\n')
        return file

    def create(self, text: str, lease_id: str | None = None, **parameters: Any) -> str:
        """Create a stack, and wait until it is complete.

        :param lease_id: of the whole stack
        :returns: its id
        """
        stack_id = self.begin(text, lease_id, **parameters)
        return self.wait(stack_id, 'CREATE_COMPLETE')['id']

    def begin(
        self, text: str, lease_id: str | None = None, rollback: bool = False, **parameters: Any
    ) -> str:
        """Ask for a stack; the same without waiting.

        :param rollback: take all of it back if something fails
        """
        asked = {
            'stack_name': f'test-{uuid.uuid4().hex[:8]}',
            'disable_rollback': not rollback,
            **body(text, lease_id, parameters),
        }
        response = self.heat.post('/stacks', json=asked)
        assert response.status_code == 201, response.text
        self.stacks.append(response.json()['stack']['id'])
        return self.stacks[-1]

    def update(
        self, stack_id: str, text: str, lease_id: str | None = None, **parameters: Any
    ) -> None:
        """Update a stack with a template, and wait until it is complete."""
        self.ask(stack_id, text, lease_id, **parameters)
        self.wait(stack_id, 'UPDATE_COMPLETE')

    def ask(
        self, stack_id: str, text: str, lease_id: str | None = None, **parameters: Any
    ) -> None:
        """Ask for an update. Its status has changed when Heat answers."""
        response = self.heat.put(self.path(stack_id), json=body(text, lease_id, parameters))
        assert response.status_code == 202, response.text

    def patch(self, stack_id: str) -> None:
        """Update a stack with what it has: ``openstack stack update --existing``."""
        response = self.heat.patch(self.path(stack_id), json={})
        assert response.status_code == 202, response.text

    def act(self, stack_id: str, action: str) -> None:
        response = self.heat.post(f'{self.path(stack_id)}/actions', json={action: None})
        assert response.status_code in (200, 202), response.text

    def abandon(self, stack_id: str) -> None:
        """Make Heat forget a stack, and leave what it is made of."""
        response = self.heat.delete(f'{self.path(stack_id)}/abandon')
        assert response.status_code == 200, response.text
        self.wait_gone(stack_id)

    def do(self, stack_id: str, action: str, status: str) -> None:
        """Ask for an action, and wait until the stack has a status."""
        self.act(stack_id, action)
        self.wait(stack_id, status)

    @contextlib.contextmanager
    def locked(self, server_id: str) -> Iterator[None]:
        """Lock a server for a while: it can neither be woken nor deleted."""
        path = f'/servers/{server_id}/action'
        self.person.sdk.compute.post(path, json={'lock': None})
        try:
            yield
        finally:
            self.person.sdk.compute.post(path, json={'unlock': None})

    def signal(self, stack_id: str, resource: str, **details: Any) -> None:
        """Signal a resource; what it does then is not waited for."""
        path = f'{self.path(stack_id)}/resources/{resource}/signal'
        response = self.heat.post(path, json=details)
        assert response.status_code == 200, response.text

    def delete(self, stack_id: str) -> None:
        """Delete a stack and wait until it is gone."""
        self.heat.delete(self.path(stack_id))
        self.wait_gone(stack_id)

    def path(self, stack_id: str) -> str:
        return f'/stacks/{self.look(stack_id)["stack_name"]}/{stack_id}'

    def look(self, stack_id: str) -> Any:
        """Return the stack as Heat shows it; None when it is gone."""
        response = self.heat.get('/stacks', params={'id': stack_id})
        (found,) = response.json()['stacks'] or (None,)
        return found

    def show(self, stack_id: str) -> Any:
        return self.heat.get(self.path(stack_id)).json()['stack']

    def wait(self, stack_id: str, *statuses: str) -> Any:
        """Wait until a stack has one of these statuses; a failure that is not waited for fails.

        A rollback shows the failure that it undoes for a moment: with a status of a rollback
        among those that are waited for, only ROLLBACK_FAILED is such a failure.
        """
        final = 'ROLLBACK_FAILED' if 'ROLLBACK_COMPLETE' in statuses else '_FAILED'

        def look() -> Any:
            found = self.look(stack_id)
            assert found, f'stack {stack_id} is gone'
            status = found['stack_status']
            if status.endswith(final) and status not in statuses:
                raise AssertionError(f'{status}: {found["stack_status_reason"]}')
            return found if status in statuses else None

        return wait_for(look, f'stack {stack_id} in {statuses}')

    def is_named(self, name: str) -> bool:
        """Tell whether Heat knows a stack of this name."""
        return bool(self.heat.get('/stacks', params={'name': name}).json()['stacks'])

    def wait_resource(self, stack_id: str, name: str, status: str) -> None:
        """Wait until a resource of the stack itself has a status."""

        def look() -> bool:
            found = {each['resource_name']: each for each in self.resources(stack_id)}
            return found[name]['resource_status'] == status

        wait_for(look, f'{name} of stack {stack_id} in {status}')

    def wait_gone(self, stack_id: str) -> None:
        """Wait until Heat shows it no more: it does for a moment after the deletion."""
        try:
            wait_for(lambda: self.look(stack_id) is None, f'stack {stack_id} gone')
        except exceptions.ResourceTimeout:
            found = self.look(stack_id) or {}
            status, reason = found.get('stack_status'), found.get('stack_status_reason')
            raise AssertionError(f'stack {stack_id} is {status}: {reason}') from None

    def outputs(self, stack_id: str) -> dict[str, Any]:
        outputs = self.show(stack_id)['outputs']
        return {each['output_key']: each.get('output_value') for each in outputs}

    def wait_output(self, stack_id: str, name: str, value: Any) -> None:
        """Wait until an output is this."""
        wait_for(
            lambda: self.outputs(stack_id).get(name) == value, f'{name} {value} of {stack_id}'
        )

    def resources(self, stack_id: str) -> list[Any]:
        """Return what it has and what is nested in it."""
        path = f'{self.path(stack_id)}/resources'
        return self.heat.get(path, params={'nested_depth': 3}).json()['resources']

    def ids(self, stack_id: str, kind: str) -> list[str]:
        """Return what it has of a type, by the ids."""
        return [
            each['physical_resource_id']
            for each in self.resources(stack_id)
            if each['resource_type'] == kind and each['physical_resource_id']
        ]

    def id_of(self, stack_id: str, name: str) -> str:
        """Return what a resource has made, by its name."""
        found = self.resources(stack_id)
        (wanted,) = [each for each in found if each['resource_name'] == name]
        return wanted['physical_resource_id']

    def servers(self, stack_id: str) -> list[str]:
        """Return the statuses of its servers."""
        compute = self.person.sdk.compute
        found = [compute.get_server(one) for one in self.ids(stack_id, 'OS::Nova::Server')]
        return sorted(one.status for one in found)

    def wait_servers(self, stack_id: str, *statuses: str) -> None:
        """Wait until its servers have these statuses."""
        wait_for(
            lambda: self.servers(stack_id) == sorted(statuses),
            f'servers of stack {stack_id} in {statuses}',
        )

    def wake_ups(self, stack_id: str) -> list[int]:
        """Return how often each of its servers was woken, by the lists of their actions."""
        servers = self.ids(stack_id, 'OS::Nova::Server')
        found = [self.person.sdk.compute.server_actions(each) for each in servers]
        return [sum(action.action == 'wake_up' for action in actions) for actions in found]

    def volumes(self, stack_id: str) -> list[str]:
        """Return the statuses of its volumes."""
        cinder = self.person.sdk.block_storage
        found = [cinder.get_volume(one) for one in self.ids(stack_id, 'OS::Cinder::Volume')]
        return sorted(one.status for one in found)

    def updated(self, stack_id: str) -> list[str]:
        """Name what an update completed, in this order."""
        return [
            each['resource_name']
            for each in self._events(stack_id)
            if each['resource_status'] == 'UPDATE_COMPLETE'
        ]

    def _events(self, stack_id: str) -> list[Any]:
        """Return what has happened in it, the oldest first."""
        query = {'sort_dir': 'asc'}
        response = self.heat.get(f'{self.path(stack_id)}/events', params=query)
        return response.json()['events']

    def clean(self) -> None:
        """Delete what the test made, all of it before it is waited for any."""
        for stack_id in self.stacks:
            if found := self.look(stack_id):
                self.heat.delete(f'/stacks/{found["stack_name"]}/{stack_id}')
        for lease_id in self.leases:
            self.person.leases.delete(lease_id, ignore_missing=True)
        for stack_id in self.stacks:
            self.wait_gone(stack_id)
        # The next test counts what is reserved.
        for lease_id in self.leases:
            self.person.wait_lease_gone(lease_id)


def body(text: str, lease_id: str | None, parameters: dict[str, Any]) -> dict[str, Any]:
    environment = {'parameter_defaults': {'climate_lease_id': lease_id}} if lease_id else {}
    return {
        'template': text,
        'environment': environment,
        'parameters': parameters,
        'timeout_mins': 10,
    }
