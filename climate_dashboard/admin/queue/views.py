# SPDX-License-Identifier: Apache-2.0
"""The pages of the panel Queued Leases."""

import itertools
from typing import Any, Final

from django import urls
from django.utils.translation import gettext_lazy as _
from horizon import exceptions, forms, messages, tables
from horizon.utils import functions

from climate_common import limits
from climate_dashboard import allowed, api, cloud_names, times, words
from climate_dashboard.leases import actions, columns
from climate_dashboard.leases.tables import DETAIL
from climateclient import exceptions as client_exceptions
from climateclient.models import Lease

#: Maximum number of queued leases that are read; only all of them have an order.
_MOST: Final = 1000
_INDEX = urls.reverse_lazy('horizon:admin:climate_queue:index')
_PRIORITY: Final = 'horizon:admin:climate_queue:priority'


class SetPriority(tables.LinkAction):
    """Open the form for the priority of a lease."""

    name = 'priority'
    verbose_name = _('Set Priority')
    url = _PRIORITY
    classes = ('ajax-modal',)
    policy_rules = (('reservation', 'climate:leases:set_priority'),)


class QueueTable(tables.DataTable):
    """The leases that wait, in the order in which they are tried."""

    position = tables.Column('queue_position', verbose_name=_('Position'))
    name = tables.Column('name', verbose_name=_('Name'), link=DETAIL)
    project = tables.Column('project_id', verbose_name=_('Project'))
    priority = tables.Column('priority', verbose_name=_('Priority'))
    start = columns.TimeColumn('start_date', verbose_name=_('Start'))
    end = columns.TimeColumn('end_date', verbose_name=_('End'))
    retry = columns.TimeColumn('next_retry_at', verbose_name=_('Next Try'))
    resources = tables.Column(
        lambda lease: words.counted(lease.reservations), verbose_name=_('Resources')
    )
    reason = tables.Column('status_reason', verbose_name=_('Reason'))

    class Meta:
        name = 'queue'
        verbose_name = _('Queued Leases')
        no_data_message = _(
            'No lease is queued. A lease is queued for capacity if its form chose that.'
        )
        pagination_param = 'after'
        prev_pagination_param = 'before'
        row_actions = (SetPriority, actions.EndLease)

    def __init__(self, request: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(request, *args, **kwargs)
        names = cloud_names.projects(request)
        self.columns['project'].filters = (lambda found: names.get(found, found),)


class IndexView(times.LocalTimeMixin, tables.PagedTableMixin, tables.DataTableView):
    """The leases that wait, in pages."""

    table_class = QueueTable
    template_name = 'climate_dashboard/table.html'
    page_title = _('Queued Leases')

    def get_data(self) -> list[Lease]:
        try:
            found = api.client(self.request).leases.list(status='WAITING', limit=_MOST + 1)
            waiting = [*itertools.islice(found, _MOST + 1)]
        except Exception as error:  # noqa: BLE001
            exceptions.handle(
                self.request, _('The leases cannot be listed: %s') % api.error_text(error)
            )
            return []
        if len(waiting) > _MOST:
            messages.warning(self.request, _('Only %d of the queued leases are shown.') % _MOST)
        ordered = sorted(waiting[:_MOST], key=lambda lease: lease.queue_position or 0)
        return self._page(ordered)

    def _page(self, ordered: list[Lease]) -> list[Lease]:
        """Return the leases after, or before, the one that the address names; or the first."""
        marker, order = self._get_marker()
        size = functions.get_page_size(self.request)
        places = {lease.id: place for place, lease in enumerate(ordered)}
        # One that waits no longer: from the beginning.
        place = places.get(marker, -1)
        first = place + 1 if order == 'desc' else max(0, place - size)
        self._has_more_data = len(ordered) > first + size
        self._has_prev_data = first > 0
        return ordered[first : first + size]


class PriorityForm(forms.SelfHandlingForm):
    """The priority of a lease that waits."""

    priority = forms.IntegerField(
        label=_('Priority'),
        min_value=0,
        max_value=limits.PRIORITY,
        help_text=_('From 0 to 9: leases with a higher priority come first'),
    )

    def __init__(self, request: Any, *args: Any, lease_id: str, **kwargs: Any) -> None:
        super().__init__(request, *args, **kwargs)
        self._lease_id = lease_id

    def handle(self, request: Any, data: dict[str, Any]) -> bool:
        try:
            api.client(request).leases.update(self._lease_id, priority=data['priority'])
        except client_exceptions.ApiError as error:
            self.api_error(api.error_text(error))
            return False
        messages.success(request, _('The priority was set.'))
        return True


class PriorityView(allowed.AllowedMixin, times.LocalTimeMixin, forms.ModalFormView):
    """The priority of a lease that waits."""

    rule = 'climate:leases:set_priority'
    form_class: Any = PriorityForm
    template_name = 'climate_dashboard/admin/form.html'
    page_title = modal_header = submit_label = _('Set Priority')
    success_url = _INDEX

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), 'lease_id': self.kwargs['lease_id']}

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = super().get_context_data(**kwargs)
        context['submit_url'] = urls.reverse(_PRIORITY, args=[self.kwargs['lease_id']])
        return context
