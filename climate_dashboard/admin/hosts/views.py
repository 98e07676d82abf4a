# SPDX-License-Identifier: Apache-2.0
"""The pages of the panel Hosts."""

import itertools
from typing import Any

from django import urls
from django.utils.translation import gettext_lazy as _
from horizon import exceptions, forms, tables
from horizon.utils import functions

from climate_dashboard import allowed, api, times
from climate_dashboard.admin.hosts import forms as host_forms
from climate_dashboard.admin.hosts import tables as host_tables
from climateclient.host_models import Host

_INDEX = urls.reverse_lazy('horizon:admin:climate_hosts:index')


class IndexView(times.LocalTimeMixin, tables.PagedTableMixin, tables.DataTableView):
    """The hosts of the pools."""

    table_class = host_tables.HostsTable
    template_name = 'climate_dashboard/table.html'
    page_title = _('Hosts')

    def get_data(self) -> list[Host]:
        marker, _order = self._get_marker()
        size = functions.get_page_size(self.request)
        try:
            found = api.client(self.request).hosts.list(marker=marker, limit=size + 1)
            hosts = [*itertools.islice(found, size + 1)]
        except Exception as error:  # noqa: BLE001
            exceptions.handle(
                self.request, _('The hosts cannot be listed: %s') % api.error_text(error)
            )
            return []
        self._has_more_data = len(hosts) > size
        return hosts[:size]


class AddHostView(allowed.AllowedMixin, times.LocalTimeMixin, forms.ModalFormView):
    """A host that leases shall have."""

    rule = 'climate:hosts:create'
    form_class: Any = host_forms.AddHostForm
    template_name = 'climate_dashboard/admin/form.html'
    page_title = modal_header = submit_label = _('Add Host')
    submit_url = urls.reverse_lazy('horizon:admin:climate_hosts:add')
    success_url = _INDEX


class DisableView(allowed.AllowedMixin, times.LocalTimeMixin, forms.ModalFormView):
    """The reason why a host takes no new leases."""

    rule = 'climate:hosts:update'
    form_class: Any = host_forms.DisableForm
    template_name = 'climate_dashboard/admin/form.html'
    page_title = modal_header = submit_label = _('Maintenance')
    success_url = _INDEX

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), 'host_id': self.kwargs['host_id']}

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = super().get_context_data(**kwargs)
        address = 'horizon:admin:climate_hosts:disable'
        context['submit_url'] = urls.reverse(address, args=[self.kwargs['host_id']])
        context['text'] = _('Leases that have the host keep it; new ones do not get it.')
        return context
