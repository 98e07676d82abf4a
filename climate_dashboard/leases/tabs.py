# SPDX-License-Identifier: Apache-2.0
"""Show one lease in tabs: what it is, what it holds, what happens and what happened to it."""

import itertools
from typing import Any, Final

from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from horizon import exceptions, tables, tabs
from horizon.utils import functions
from openstack_dashboard.api import cinder, nova

from climate_common import lease_fields, resource_types
from climate_dashboard import api, times, words
from climate_dashboard.leases import actions, columns, resources
from climateclient.models import Event, HistoryEntry, Lease, Reservation

#: Maximum number of resources whose names are requested.
_NAMED: Final = 10
#: The address of the tab of the history within the page of a lease.
_HISTORY: Final = 'tab=lease__history'
_FINDERS: Final = {
    resource_types.SERVER: nova.server_get,
    resource_types.VOLUME: cinder.volume_get,
}


class LeaseTableTab(tabs.TableTab):
    """Show a table about a lease, which is read when its tab is opened."""

    template_name = 'horizon/common/_detail_table.html'
    preload = False


class OverviewTab(tabs.Tab):
    """Show what a lease is, and what comes next."""

    name = _('Overview')
    slug = 'overview'
    template_name = 'climate_dashboard/leases/_overview.html'

    def get_context_data(self, request: Any) -> dict[str, Any]:
        lease: Lease = self.tab_group.kwargs['lease']
        coming = [each for each in lease.events if each.status == 'UNDONE' and each.time]
        return {
            'lease': lease,
            'status': words.word(words.LEASE_STATUSES, lease.status),
            'reason': words.reason(lease),
            'kind': words.word(words.KINDS, lease.kind),
            'start': times.show(lease.start_date),
            'end': times.show(lease.end_date),
            'created': times.show(lease.created_at),
            'zone': times.zone_name(),
            'resources': words.counted(lease.reservations),
            'more': [
                (_(field.title), getattr(lease, field.name)) for field in lease_fields.GENERIC
            ],
            'next': _event(coming[0]) if coming else None,
        }


class ReservationsTable(tables.DataTable):
    """The resources of a lease."""

    type = tables.Column(
        lambda row: words.word(words.RESOURCE_TYPES, words.type_of(row.reservation)),
        verbose_name=_('Type'),
    )
    resource = tables.Column(lambda row: row.shown, verbose_name=_('Resource'))
    status = tables.Column(lambda row: _status(row.reservation), verbose_name=_('Status'))
    on_end = tables.Column(
        lambda row: words.word(words.ENDS, row.reservation.params.get('on_end')),
        verbose_name=_('At the End'),
    )

    class Meta:
        name = 'reservations'
        verbose_name = _('Resources')
        no_data_message = _(
            'The lease has no resources yet. Servers and volumes join it by the hint lease_id.'
        )
        row_actions = (actions.ReleaseResource,)


class ReservationRow:
    """A reservation with what it holds."""

    def __init__(self, reservation: Reservation, shown: Any) -> None:
        self.id, self.reservation, self.shown = reservation.id, reservation, shown
        self.name = words.word(words.RESOURCE_TYPES, words.type_of(reservation))


class ReservationsTab(LeaseTableTab):
    """Show the resources of a lease, with links to them."""

    name = _('Resources')
    slug = 'reservations'
    table_classes = (ReservationsTable,)

    def get_reservations_data(self) -> list[ReservationRow]:
        lease: Lease = self.tab_group.kwargs['lease']
        names = _names(self.request, lease)
        is_operator = self.request.user.is_superuser
        return [
            ReservationRow(each, resources.shown(each, names, is_operator))
            for each in lease.reservations
        ]


class EventsTable(tables.DataTable):
    """The events of a lease."""

    time = columns.TimeColumn('time', verbose_name=_('Time'))
    event_type = tables.Column(
        lambda event: words.word(words.EVENTS, event.event_type), verbose_name=_('Event')
    )
    status = tables.Column('status', verbose_name=_('Status'))
    reason = tables.Column('status_reason', verbose_name=_('Reason'))

    class Meta:
        name = 'events'
        verbose_name = _('Events')

    def get_object_display(self, datum: Event) -> str:
        return datum.event_type


class EventsTab(LeaseTableTab):
    """Show what happens to a lease, and when."""

    name = _('Events')
    slug = 'events'
    table_classes = (EventsTable,)

    def get_events_data(self) -> tuple[Event, ...]:
        lease: Lease = self.tab_group.kwargs['lease']
        return lease.events


class HistoryTable(tables.DataTable):
    """The history of a lease."""

    time = columns.TimeColumn('time', verbose_name=_('Time'))
    action = tables.Column('action', verbose_name=_('Action'))
    result = tables.Column('result', verbose_name=_('Result'))
    reason = tables.Column('reason', verbose_name=_('Reason'))
    user_id = tables.Column('user_id', verbose_name=_('User'))

    class Meta:
        name = 'history'
        verbose_name = _('History')
        pagination_param = 'after'
        prev_pagination_param = 'before'

    def get_object_display(self, datum: HistoryEntry) -> str:
        return datum.action

    def get_pagination_string(self) -> str:
        return f'{_HISTORY}&{super().get_pagination_string()}'

    def get_prev_pagination_string(self) -> str:
        return f'{_HISTORY}&{super().get_prev_pagination_string()}'


class HistoryTab(LeaseTableTab):
    """Show what happened to a lease in pages, the newest first."""

    name = _('History')
    slug = 'history'
    table_classes = (HistoryTable,)
    _has_more = _has_prev = False

    def get_history_data(self) -> list[HistoryEntry]:
        lease: Lease = self.tab_group.kwargs['lease']
        before, after = (self.request.GET.get(name) for name in ('before', 'after'))
        size = functions.get_page_size(self.request)
        try:
            found = api.client(self.request).leases.history(
                lease.id,
                sort='time:asc' if before else 'time:desc',
                marker=before or after,
                limit=size + 1,
            )
            entries = [*itertools.islice(found, size + 1)]
        except Exception:  # noqa: BLE001
            exceptions.handle(self.request, _('The history cannot be read.'))
            return []
        is_more = len(entries) > size
        entries = entries[:size]
        # What comes from the other side is there in any case.
        self._has_more, self._has_prev = bool(before) or is_more, bool(after)
        if before:
            self._has_prev = is_more
            entries.reverse()
        return entries

    def has_more_data(self, table: tables.DataTable) -> bool:
        return self._has_more

    def has_prev_data(self, table: tables.DataTable) -> bool:
        return self._has_prev


class LeaseTabs(tabs.TabGroup):
    """All tabs of a lease."""

    slug = 'lease'
    tabs = (OverviewTab, ReservationsTab, EventsTab, HistoryTab)
    sticky = True


def _event(event: Event) -> str:
    return f'{times.show(event.time)}: {words.word(words.EVENTS, event.event_type)}'


def _status(reservation: Reservation) -> Any:
    status = words.word(words.RESERVATION_STATUSES, reservation.status)
    if not reservation.status_reason:
        return status
    return format_html('{}<div class="climate-reason">{}</div>', status, reservation.status_reason)


def _names(request: Any, lease: Lease) -> dict[str, str]:
    """Return the names of servers and volumes, as far as they can be had."""
    found: dict[str, str] = {}
    asked = [each for each in lease.reservations if each.status in ('pending', 'active')]
    ids = [(each.resource_type, each.resource_id) for each in asked if each.resource_id]
    for resource_type, resource_id in ids[:_NAMED]:
        if resource_type in _FINDERS:
            try:
                resource = _FINDERS[resource_type](request, resource_id)
            except Exception:  # noqa: BLE001
                exceptions.handle(request, ignore=True)
            else:
                found[resource_id] = resource.name
    return found
