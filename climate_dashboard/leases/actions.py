# SPDX-License-Identifier: Apache-2.0
"""Do what can be done with leases, each as far as the policy allows it."""

import functools
from collections.abc import Callable
from typing import Any, Final

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy
from horizon import exceptions, tables

from climate_dashboard import api
from climateclient import exceptions as client_exceptions
from climateclient.models import Lease

#: The statuses of leases that are not over.
_LASTING: Final = (
    'WAITING',
    'IN_PROGRESS',
    'PENDING',
    'STARTING',
    'ACTIVE',
    'ERROR',
    'TIMEDOUT',
)
#: Those of them whose end can be moved.
_MOVABLE: Final = ('WAITING', 'PENDING', 'STARTING', 'ACTIVE')
#: The statuses of reservations that can leave their lease.
_HELD: Final = ('pending', 'active', 'error')
_PROJECT: Final = (('project_id', 'project_id'),)
Act = Callable[[Any, Any, str], None]


def telling(act: Act) -> Act:
    """Have an action on a row show why the service has refused it."""

    @functools.wraps(act)
    def wrapper(action: Any, request: Any, row_id: str) -> None:
        try:
            act(action, request, row_id)
        except client_exceptions.ApiError as error:
            row = action.table.get_object_by_id(row_id)
            name = action.table.get_object_display(row)
            values = {'name': name, 'reason': api.error_text(error)}
            # Horizon has no message of its own for an exception that is handled.
            exceptions.handle(request, _('%(name)s: %(reason)s') % values, escalate=True)

    return wrapper


class CreateLease(tables.LinkAction):
    """Open the form of a new lease, on a page of its own: it has several buttons."""

    name = 'create'
    verbose_name = _('Create Lease')
    url = 'horizon:project:climate_leases:create'
    icon = 'plus'
    policy_rules = (('reservation', 'climate:leases:create'),)


class ExtendLease(tables.LinkAction):
    """Open the form for a later end."""

    name = 'extend'
    verbose_name = _('Extend')
    url = 'horizon:project:climate_leases:extend'
    classes = ('ajax-modal',)
    policy_rules = (('reservation', 'climate:leases:update'),)
    policy_target_attrs = _PROJECT

    def allowed(self, request: Any, lease: Lease | None = None) -> bool:
        return lease is not None and lease.status in _MOVABLE


class ShortenLease(ExtendLease):
    """Open the form for an earlier end."""

    name = 'shorten'
    verbose_name = _('Shorten')
    url = 'horizon:project:climate_leases:shorten'


class StartLease(tables.BatchAction):
    """Start leases that wait for that."""

    name = 'start'
    policy_rules = (('reservation', 'climate:leases:start'),)
    policy_target_attrs = _PROJECT
    help_text = _('The resources of the lease start now.')

    @staticmethod
    def action_present(count: int) -> Any:
        return ngettext_lazy('Start Lease', 'Start Leases', count)

    @staticmethod
    def action_past(count: int) -> Any:
        return ngettext_lazy('Started Lease', 'Started Leases', count)

    def allowed(self, request: Any, lease: Lease | None = None) -> bool:
        return lease is not None and lease.status == 'PENDING' and lease.waits_for_user

    @telling
    def action(self, request: Any, lease_id: str) -> None:
        api.client(request).leases.start(lease_id)


class EndLease(tables.BatchAction):
    """End leases now; those that have not started are cancelled."""

    name = 'end'
    policy_rules = (('reservation', 'climate:leases:end'),)
    policy_target_attrs = _PROJECT
    action_type = 'danger'
    help_text = _(
        'The resources of the lease are released now. A lease that has not started is cancelled.'
    )

    @staticmethod
    def action_present(count: int) -> Any:
        return ngettext_lazy('End Lease', 'End Leases', count)

    @staticmethod
    def action_past(count: int) -> Any:
        return ngettext_lazy('Ended Lease', 'Ended Leases', count)

    def allowed(self, request: Any, lease: Lease | None = None) -> bool:
        return lease is None or lease.status in _LASTING

    @telling
    def action(self, request: Any, lease_id: str) -> None:
        api.client(request).leases.end(lease_id)


class ReleaseResource(tables.BatchAction):
    """Release one resource of a lease; the lease continues without it."""

    name = 'release'
    policy_rules = (('reservation', 'climate:reservations:delete'),)
    action_type = 'danger'
    help_text = _('The lease continues without the resource. Its end action is done now.')

    @staticmethod
    def action_present(count: int) -> Any:
        return ngettext_lazy('Release', 'Release', count)

    @staticmethod
    def action_past(count: int) -> Any:
        return ngettext_lazy('Released', 'Released', count)

    def allowed(self, request: Any, row: Any = None) -> bool:
        return row is not None and row.reservation.status in _HELD

    @telling
    def action(self, request: Any, reservation_id: str) -> None:
        lease_id = self.table.kwargs['lease_id']
        api.client(request).leases.remove_reservation(lease_id, reservation_id)
