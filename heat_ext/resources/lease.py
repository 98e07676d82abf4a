# SPDX-License-Identifier: Apache-2.0
"""``OS::Climate::Lease``: a lease as a resource of a stack.

The stack is a reservation of its lease: at the start the lease service wakes the servers and
volumes that joined it, in the order of the template, and at the end it does ``on_end`` with the
stack. The id of the lease is that of the resource, so that a request which is repeated because
its answer was lost, or the engine with it, makes no second lease.

A lease is never replaced while there is something to keep in it: all that refers to it would be
replaced too. So it is changed in place as far as the lease service lets it be changed, and what
that refuses fails the update with its reason.
"""

from collections.abc import Mapping
from typing import Any

from heat.common import exception
from heat.engine import attributes, resource
from heat.objects import stack as stack_object
from keystoneauth1 import exceptions as ks_exceptions
from oslo_log import log

from climateclient import exceptions, models, times
from heat_ext.lease import reservations, terms
from heat_ext.service import client, leases

LOG = log.getLogger(__name__)

#: Statuses of a lease that is no good any more.
BAD = frozenset(('ERROR', 'TERMINATING', 'TERMINATED', 'DELETING'))

_A = attributes.Schema


def _attribute(description: str, kind: str | None = None) -> attributes.Schema:
    # It changes by itself: what heat has read before is no answer.
    return _A(description, type=kind or _A.STRING, cache_mode=_A.CACHE_NONE)


class Lease(resource.Resource):
    """A lease: servers, volumes and other resources are reserved from a start to an end.

    Servers and volumes of the stack join it with the scheduler hints ``reserved: true`` and
    ``lease_id: {get_resource: <this>}``. They are built asleep, and woken when the lease starts.
    """

    default_client_name = client.CLIENT_NAME
    entity = 'leases'
    properties_schema = terms.SCHEMA
    # What a check found wrong is to be mended by the lease service, not by a new lease.
    always_replace_on_check_failed = False
    attributes_schema = {
        'name': _attribute('The name of the lease.'),
        'status': _attribute(
            'PENDING, STARTING, ACTIVE, TERMINATING, TERMINATED, DELETING or ERROR.'
        ),
        'status_reason': _attribute('Why it is in that status, if there is something to say.'),
        'start_date': _attribute('When it starts, in ISO 8601.'),
        'end_date': _attribute('When it ends, in ISO 8601.'),
        'before_end_date': _attribute('When it is told that the end is near, in ISO 8601.'),
        'start_policy': _attribute('auto, or manual.'),
        'degraded': _attribute('Whether a resource is gone and others go on.', _A.BOOLEAN),
        'reservations': _attribute('What it holds or held, with the status of each.', _A.LIST),
        'events': _attribute('What happens to it, in the order of time.', _A.LIST),
        'project_id': _attribute('The project that it belongs to.'),
        'user_id': _attribute('The user who made it.'),
        'created_at': _attribute('When it was made, in ISO 8601.'),
        'updated_at': _attribute('When it was changed for the last time, in ISO 8601.'),
    }

    def __init__(self, name: str, definition: Any, stack: Any) -> None:
        self._repairs = False
        super().__init__(name, definition, stack)

    def validate(self) -> Any:
        result = super().validate()
        given = self.properties
        # An end that heat cannot know yet is there nevertheless.
        said = [name for name in (terms.END, terms.DURATION) if given.data.get(name) is not None]
        if len(said) != 1:
            raise exception.StackValidationFailed(
                message='Either end_date or duration is needed, and not both.'
            )
        terms.check(given)
        return result

    # Creation.

    def handle_create(self) -> None:
        # Known before it is asked for: if the answer is lost, the lease is found and deleted.
        self.resource_id_set(self.uuid)
        wanted = {name: self.properties[name] for name in terms.SCHEMA}
        try:
            self._make(terms.to_send(wanted))
        except exceptions.ApiError as error:
            # Heat would delete a resource in conflict and try again, with an id that is used up.
            raise _refusal(error, *self._items(self.properties))

    def _make(self, wanted: dict[str, Any]) -> None:
        given = {key: value for key, value in wanted.items() if value is not None}
        self.client().leases.create(
            given.pop('name', None) or self._default_name(),
            reservations=self._wanted(self.properties),
            id=self.resource_id,
            **given,
        )

    def _default_name(self) -> str:
        return str(self.physical_resource_name())

    def _wanted(self, given: Mapping[str, Any]) -> list[reservations.Item]:
        """Give the reservations that properties ask for: the stack's, and what is named."""
        return self._items(given)[0]

    def _items(
        self, given: Mapping[str, Any]
    ) -> tuple[list[reservations.Item], list[reservations.Item]]:
        own = reservations.of_stack(self.stack.root_stack_id(), given[terms.ON_END])
        named = reservations.clean(given[terms.RESERVATIONS])
        return [own, *named], named

    # What is there.

    def _find(self) -> models.Lease | None:
        return leases.find(self.client(), self.resource_id)

    def _show_resource(self) -> dict[str, Any]:
        return shown(self.client().leases.get(self.resource_id))

    def _resolve_attribute(self, name: str) -> Any:
        # One that is gone has none; heat sees to that (Resource._resolve_any_attribute).
        return self._show_resource()[name] if self.resource_id else None

    def parse_live_resource_data(self, resource_properties: Any, resource_data: Any) -> Any:  # noqa: ARG002
        """Find no difference: what the service shows is written otherwise than in a template."""
        return {}

    def handle_check(self) -> None:
        lease = self._find()
        if lease is None:
            raise exception.Error(f'Lease {self.resource_id} does not exist any more.')
        if lease.status in BAD:
            reason = lease.status_reason or 'No reason is known.'
            raise exception.Error(f'Lease {lease.id} is {lease.status}: {reason}')

    # Updates.

    def needs_replace_failed(self) -> bool:
        """Whether a resource that failed is beyond repair: its lease is gone, or is over."""
        try:
            lease = self._find() if self.resource_id else None
        except ks_exceptions.ClientException:
            LOG.warning('It is not known whether lease %s is there', self.resource_id)
            # What is done next fails with the reason, and replaces nothing.
            return False
        return _is_over(lease)

    def _needs_update(self, *args: Any, **kwargs: Any) -> bool:
        # An update that failed half-way left something behind, which this one puts right.
        self._repairs = self.state == (self.UPDATE, self.FAILED)
        return bool(super()._needs_update(*args, **kwargs)) or self._repairs

    def handle_update(self, json_snippet: Any, tmpl_diff: Any, prop_diff: Any) -> None:  # noqa: ARG002
        lease = self._find()
        if _is_over(lease):
            raise resource.UpdateReplace(self.name)
        after = json_snippet.properties(self.properties_schema, self.context)
        wanted, named = self._items(after)
        before = reservations.clean(self.properties[terms.RESERVATIONS])
        for made in reservations.remade(lease, wanted, before):
            raise exception.Error(_not_made_again(made))
        difference = reservations.compare(lease, wanted, before)
        try:
            lease = self._change(lease, self._changes(after, prop_diff), difference.changes)
            self._add(lease, difference.missing, named)
            self._remove(lease, difference.surplus)
        except exceptions.ApiError as error:
            raise _refusal(error, difference.changes, named)

    def _changes(self, after: Mapping[str, Any], prop_diff: Mapping[str, Any]) -> dict[str, Any]:
        """Give what is different, in the words of the client."""
        names = set(prop_diff) & terms.SCHEMA.keys()
        if self._repairs:
            # "now" is another time each time it is said.
            names = {name for name in terms.SCHEMA if name != terms.START or after[name] != 'now'}
        if terms.START in names:
            # The end that follows from the start goes with it.
            names.add(terms.DURATION)
        changes = terms.to_send({name: after[name] for name in names})
        if terms.NAME in names:
            changes['name'] = changes['name'] or self._default_name()
        return {key: each for key, each in changes.items() if each is not None or key == 'webhook'}

    def _change(
        self, lease: models.Lease, changes: dict[str, Any], items: list[reservations.Item]
    ) -> models.Lease:
        if items:
            changes['reservations'] = items
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
        """Let several join the lease, all or none: it is made again with the same id."""
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
            if not self._stack_goes():
                self._let_stack_go_on()
            self.client().leases.delete(self.resource_id)
        return self.resource_id

    def _stack_goes(self) -> bool:
        """Whether the lease is deleted with its stack, or only taken out of it."""
        root = stack_object.Stack.get_by_id(self.context, self.stack.root_stack_id())
        return bool(root.action == self.DELETE)

    def _let_stack_go_on(self) -> None:
        """Take the stack out of the end of its lease, which would delete it.

        Servers and volumes that run stay too; those that were never woken are deleted.
        """
        lease = self._find()
        for each in reservations.held(lease) if lease else ():
            if self._is_own_stack(each) and each.params.get(terms.ON_END) != 'nothing':
                with self.client_plugin().ignore_conflict_and_not_found:
                    self.client().leases.update_reservation(
                        self.resource_id, each.id, on_end='nothing'
                    )

    def _is_own_stack(self, reservation: models.Reservation) -> bool:
        own = (leases.STACK, self.stack.root_stack_id())
        return (reservation.resource_type, reservation.resource_id) == own

    def check_delete_complete(self, lease_id: str | None) -> bool:
        """Wait until nothing is held any more, as far as that does not wait for this stack.

        The stack is the first that ends in a lease, and its reservation ends when it is gone:
        what the lease holds beside it is freed after that.
        """
        if lease_id is None:
            return True
        try:
            lease = self._find()
        except (exceptions.ServerError, ks_exceptions.ConnectFailure) as error:
            LOG.warning('Whether lease %s is gone is not known: %s', lease_id, error)
            return False
        held = reservations.held(lease) if lease else []
        return not held or any(self._waits_for_us(each) for each in held)

    def _waits_for_us(self, reservation: models.Reservation) -> bool:
        if not self._is_own_stack(reservation):
            return False
        return self._stack_goes() or reservation.params.get(terms.ON_END) != 'nothing'


def shown(lease: models.Lease) -> dict[str, Any]:
    """Give the attributes of a lease, of JSON types only."""
    return {
        'id': lease.id,
        'name': lease.name,
        'status': lease.status,
        'status_reason': lease.status_reason,
        'start_date': times.iso_time(lease.start_date),
        'end_date': times.iso_time(lease.end_date),
        'before_end_date': times.iso_time(lease.before_end_date),
        'start_policy': lease.start_policy,
        'before_start': list(lease.before_start),
        'degraded': lease.degraded,
        'reservations': [
            {
                **each.params,
                'id': each.id,
                'resource_type': each.resource_type,
                'resource_id': each.resource_id,
                'status': each.status,
                'status_reason': each.status_reason,
            }
            for each in lease.reservations
        ],
        'events': [
            {
                'id': each.id,
                'event_type': each.event_type,
                'time': times.iso_time(each.time),
                'status': each.status,
                'status_reason': each.status_reason,
            }
            for each in lease.events
        ],
        'project_id': lease.project_id,
        'user_id': lease.user_id,
        'created_at': times.iso_time(lease.created_at),
        'updated_at': times.iso_time(lease.updated_at),
    }


def _is_over(lease: models.Lease | None) -> bool:
    """Whether nothing is left of a lease; one that is just ending still holds its stack."""
    return lease is None or lease.status == 'TERMINATED'


def _not_made_again(made: models.Reservation) -> str:
    """Say what to do in place of a change of what a stack is made from."""
    name = made.params['name']
    if not reservations.failed(made):
        return f'The stack {name} was made from its template: update that stack itself.'
    return (
        f'The stack {name} could not be held or woken: take it out in one update and put it in '
        'again in the next, or update that stack itself if it is there. '
        f'{made.status_reason or "No reason is known."}'
    )


def _refusal(
    error: exceptions.ApiError,
    sent: list[reservations.Item],
    named: list[reservations.Item],
) -> exception.Error:
    """Say in heat's words what the lease service said; the reason is shown with the stack."""
    return exception.Error(reservations.blamed(str(error), sent, named))


TYPES = {'OS::Climate::Lease': Lease}
