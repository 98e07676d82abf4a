# SPDX-License-Identifier: Apache-2.0
"""``OS::Climate::Lease``: a lease as a resource of a stack.

The stack is a reservation of its lease: at the start the lease service wakes up the servers and
volumes that joined the lease, in the order of the template, and at the end it applies ``on_end``
to the stack. The lease has the id of the resource, so that a request that is repeated because its
answer or the engine was lost creates no second lease.

A lease of another kind than ``immediate`` does not hold its stack, which is there already: it has
hosts or capacity alone. The resource is in progress as long as the lease waits for them.

A lease is not replaced before it is over: that would replace everything that refers to it. It is
changed in place as far as the lease service allows, and what that refuses fails the update with
its reason.
"""

import json
from collections.abc import Mapping
from typing import Any

from heat.common import exception
from heat.engine import function, resource
from heat.objects import stack as stack_object
from keystoneauth1 import exceptions as ks_exceptions
from oslo_log import log

from climate_common import lease_fields
from climateclient import exceptions, models
from heat_ext.lease import attributes, networks, properties, reservations
from heat_ext.service import client, leases

LOG = log.getLogger(__name__)

#: Statuses of a lease that a check of the stack reports as failed.
_FAILED = frozenset(('ERROR', 'TIMEDOUT', 'TERMINATING', 'TERMINATED', 'DELETING'))

#: Statuses of a lease that is not granted yet.
_WAITING = frozenset(('WAITING', 'IN_PROGRESS'))

#: Key of the resource's data: the ids of the networks by the names that the template has, as JSON.
#: A network may be renamed or deleted before the template leaves it out.
_NETWORKS = 'networks'


class Lease(resource.Resource):
    """A lease: servers, volumes and other resources are reserved from a start to an end.

    Servers and volumes of the stack join it with the scheduler hints ``reserved: true`` and
    ``lease_id: {get_resource: <this>}``. They are created as reserved, and woken up when the lease
    starts.
    """

    default_client_name = client.CLIENT_NAME
    entity = 'leases'
    properties_schema = properties.SCHEMA
    # The lease service repairs what a check found wrong; a new lease would not.
    always_replace_on_check_failed = False
    attributes_schema = attributes.SCHEMA

    def __init__(self, name: str, definition: Any, stack: Any) -> None:
        self._repair = False
        super().__init__(name, definition, stack)

    def validate(self) -> Any:
        result = super().validate()
        given = self.properties
        # The value may still be unknown, as a reference to another resource.
        ends = (properties.END, properties.DURATION)
        if sum(given.data.get(name) is not None for name in ends) != 1:
            raise exception.StackValidationFailed(
                message='Exactly one of end_date and duration must be set.'
            )
        properties.validate(given)
        # What refers to a resource that is not there yet has no network to look for.
        if not any(function.dependencies(given.data.get(properties.RESERVATIONS))):
            self._named(given)
        return result

    # Creation.

    def handle_create(self) -> str:
        # Stored before the request: if its answer is lost, the lease is found and deleted.
        self.resource_id_set(self.uuid)
        wanted = {name: self.properties[name] for name in properties.SCHEMA}
        try:
            self._create_lease(properties.to_arguments(wanted))
        except exceptions.ApiError as error:
            # On a conflict heat would delete the lease and try again, with an id that is taken.
            raise _refusal(error, *self._items(self.properties))
        return str(self.resource_id)

    def check_create_complete(self, lease_id: str) -> bool:
        """Return whether the lease is granted; one that is immediate is so from the beginning."""
        if self.properties[properties.KIND] == properties.IMMEDIATE:
            return True
        try:
            lease = self._find()
        except (exceptions.ServerError, ks_exceptions.ConnectFailure) as error:
            LOG.warning('Could not read lease %s: %s', lease_id, error)
            return False
        _check_not_failed(lease, lease_id)
        return lease.status not in _WAITING

    def _create_lease(self, wanted: dict[str, Any]) -> None:
        given = {key: value for key, value in wanted.items() if value is not None}
        items, named = self._items(self.properties)
        self._keep_networks(self.properties, named)
        self.client().leases.create(
            given.pop('name', None) or self._default_name(),
            reservations=items,
            id=self.resource_id,
            **given,
        )

    def _default_name(self) -> str:
        return str(self.physical_resource_name())

    def _items(
        self, given: Mapping[str, Any]
    ) -> tuple[list[reservations.Item], list[reservations.Item]]:
        """Return the items to reserve, and those of the template: without the stack's own."""
        named = self._named(given)
        if given[properties.KIND] != properties.IMMEDIATE:
            return named, named
        own = reservations.stack_item(self.stack.root_stack_id(), given[properties.ON_END])
        return [own, *named], named

    def _named(self, given: Mapping[str, Any]) -> list[reservations.Item]:
        """Return the items of the template, with the ids of the networks that they name."""
        items = reservations.clean_items(given[properties.RESERVATIONS])
        return networks.find_ids(items, self.client_plugin('neutron'))

    def _keep_networks(self, given: Mapping[str, Any], named: list[reservations.Item]) -> None:
        """Remember which networks the template names."""
        items = reservations.clean_items(given[properties.RESERVATIONS])
        found = json.dumps(networks.list_named(items, named), sort_keys=True)
        if found != self.data().get(_NETWORKS, '{}'):
            self.data_set(_NETWORKS, found)

    def _reserved(self) -> list[reservations.Item]:
        """Return the items of the template before an update, with the ids of their networks."""
        items = reservations.clean_items(self.properties[properties.RESERVATIONS])
        known = json.loads(self.data().get(_NETWORKS, '{}'))
        return networks.find_known_ids(items, self.client_plugin('neutron'), known)

    # The lease and its attributes.

    def _find(self) -> models.Lease | None:
        return leases.find(self.client(), self.resource_id)

    def _show_resource(self) -> dict[str, Any]:
        return attributes.to_values(self.client().leases.get(self.resource_id))

    def _resolve_attribute(self, name: str) -> Any:
        # Heat ignores that a lease is gone (heat.engine.resource._resolve_any_attribute).
        return self._show_resource()[name] if self.resource_id else None

    def parse_live_resource_data(self, resource_properties: Any, resource_data: Any) -> Any:  # noqa: ARG002
        """Return no difference: the lease service writes values otherwise than a template."""
        return {}

    def handle_check(self) -> None:
        _check_not_failed(self._find(), self.resource_id)

    # Updates.

    def needs_replace_failed(self) -> bool:
        """Return whether the lease of a failed resource is gone or over."""
        try:
            lease = self._find() if self.resource_id else None
        except ks_exceptions.ClientException:
            LOG.warning('Could not check whether lease %s exists', self.resource_id)
            # The update that follows fails with the reason, and replaces nothing.
            return False
        return _is_over(lease)

    def _needs_update(self, *args: Any, **kwargs: Any) -> bool:
        # A failed update may have changed a part of the lease.
        self._repair = self.state == (self.UPDATE, self.FAILED)
        return bool(super()._needs_update(*args, **kwargs)) or self._repair

    def handle_update(self, json_snippet: Any, tmpl_diff: Any, prop_diff: Any) -> None:  # noqa: ARG002
        lease = self._find()
        if _is_over(lease):
            raise resource.UpdateReplace(self.name)
        after = json_snippet.properties(self.properties_schema, self.context)
        wanted, named = self._items(after)
        before = self._reserved()
        for held in reservations.list_recreated(lease, wanted, before):
            raise exception.Error(_refuse_new_source(held))
        difference = reservations.compare(lease, wanted, before)
        try:
            lease = self._change(lease, self._changes(after, prop_diff), difference.changes)
            self._add(lease, difference.missing, named)
            self._remove(lease, difference.surplus)
        except exceptions.ApiError as error:
            raise _refusal(error, difference.changes, named)
        # Until now the names stand for what they stood for: a failed update is repeated.
        self._keep_networks(after, named)

    def _changes(self, after: Mapping[str, Any], prop_diff: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of the client that differ."""
        names = set(prop_diff) & properties.SCHEMA.keys()
        for name in sorted(names & properties.FIXED):
            raise exception.Error(
                f'{name}: cannot be changed. Take the lease out of the template in one update, '
                'and add another one in the next.'
            )
        if self._repair:
            # "now" would move the start of the lease.
            names = {
                name
                for name in properties.SCHEMA.keys() - properties.FIXED
                if name != properties.START or after[name] != 'now'
            }
        if properties.START in names:
            # The lease service computes the end from the new start.
            names.add(properties.DURATION)
        changes = properties.to_arguments({name: after[name] for name in names})
        if properties.NAME in names:
            changes['name'] = changes['name'] or self._default_name()
        if properties.PRIORITY in prop_diff and after[properties.PRIORITY] is None:
            changes[properties.PRIORITY] = 0
        return {
            name: value
            for name, value in changes.items()
            if value is not None or name in lease_fields.CLEARABLE
        }

    def _change(
        self, lease: models.Lease, changes: dict[str, Any], items: list[reservations.Item]
    ) -> models.Lease:
        if items:
            changes['reservations'] = items
        if lease.status != 'WAITING':
            # Heat begins the update when the creation is over, and the lease is mostly granted.
            changes.pop(properties.PRIORITY, None)
        if not changes:
            return lease
        changed: models.Lease = self.client().leases.update(lease.id, **changes)
        return changed

    def _add(
        self,
        lease: models.Lease,
        missing: list[reservations.Item],
        named: list[reservations.Item],
    ) -> None:
        """Add reservations, all or none, by a repeated creation with the same id."""
        if not missing:
            return
        dates = lease.end_date, lease.start_date
        try:
            self.client().leases.create(lease.name, *dates, id=lease.id, reservations=missing)
        except exceptions.ApiError as error:
            raise _refusal(error, missing, named)

    def _remove(self, lease: models.Lease, surplus: list[str]) -> None:
        for each in surplus:
            with self.client_plugin().ignore_not_found:
                self.client().leases.remove_reservation(lease.id, each)

    # Deletion.

    def handle_delete(self) -> str | None:
        if self.resource_id is None:
            return None
        with self.client_plugin().ignore_not_found:
            if not self._is_stack_deleted():
                self._keep_stack()
            self.client().leases.delete(self.resource_id)
        return self.resource_id

    def _is_stack_deleted(self) -> bool:
        """Return whether the whole stack is deleted, and not the lease alone."""
        root = stack_object.Stack.get_by_id(self.context, self.stack.root_stack_id())
        return bool(root.action == self.DELETE)

    def _keep_stack(self) -> None:
        """Set ``on_end`` of the stack to ``nothing``: the end of the lease would delete the stack.

        Servers and volumes that run stay too; those that were never woken up are deleted.
        """
        lease = self._find()
        for each in reservations.list_held(lease) if lease else ():
            if self._is_own_stack(each) and each.params.get(properties.ON_END) != 'nothing':
                with self.client_plugin().ignore_conflict_and_not_found:
                    self.client().leases.update_reservation(
                        self.resource_id, each.id, on_end='nothing'
                    )

    def _is_own_stack(self, reservation: models.Reservation) -> bool:
        own = (leases.STACK, self.stack.root_stack_id())
        return (reservation.resource_type, reservation.resource_id) == own

    def check_delete_complete(self, lease_id: str | None) -> bool:
        """Return whether the lease holds nothing, or holds only what waits for this stack.

        A lease ends its stacks first, and the reservation of a stack ends when the stack is
        deleted. The lease frees its other resources after that.
        """
        if lease_id is None:
            return True
        try:
            lease = self._find()
        except (exceptions.ServerError, ks_exceptions.ConnectFailure) as error:
            LOG.warning('Could not check whether lease %s is deleted: %s', lease_id, error)
            return False
        held = reservations.list_held(lease) if lease else []
        return not held or any(self._waits_for_this_stack(each) for each in held)

    def _waits_for_this_stack(self, reservation: models.Reservation) -> bool:
        if not self._is_own_stack(reservation):
            return False
        return self._is_stack_deleted() or reservation.params.get(properties.ON_END) != 'nothing'


def _check_not_failed(lease: models.Lease | None, lease_id: str) -> None:
    if lease is None:
        raise exception.Error(f'Lease {lease_id} does not exist.')
    if lease.status in _FAILED:
        reason = lease.status_reason or 'The lease service gives no reason.'
        raise exception.Error(f'Lease {lease.id} is {lease.status}: {reason}')


def _is_over(lease: models.Lease | None) -> bool:
    """Return whether a lease is gone or over; one that is ending still holds its stack."""
    return lease is None or lease.status == 'TERMINATED'


def _refuse_new_source(held: models.Reservation) -> str:
    """Return what to do instead of a change of the template of a held stack."""
    name = held.params['name']
    if not reservations.has_failed(held):
        return (
            f'The template of stack {name} cannot change in the lease: update that stack itself.'
        )
    return (
        f'The stack {name} could not be held or woken up: remove it in one update and add it '
        'again in the next, or update that stack itself if it exists. '
        f'{held.status_reason or "The lease service gives no reason."}'
    )


def _refusal(
    error: exceptions.ApiError,
    sent: list[reservations.Item],
    named: list[reservations.Item],
) -> exception.Error:
    """Return an error of the lease service as an error that heat shows with the stack."""
    return exception.Error(reservations.locate_error(str(error), sent, named))


TYPES = {'OS::Climate::Lease': Lease}
