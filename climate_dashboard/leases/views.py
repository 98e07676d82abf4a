# SPDX-License-Identifier: Apache-2.0
"""The pages of the panel Leases."""

import itertools
from typing import Any

from django import urls
from django.conf import settings
from django.utils.translation import gettext_lazy as _
from horizon import exceptions, tables, tabs
from horizon.utils import functions
from horizon.views import HorizonTemplateView
from openstack_dashboard import policy

from climate_common import resource_types
from climate_dashboard import allowed, api, times, words
from climate_dashboard.leases import tables as lease_tables
from climate_dashboard.leases import tabs as lease_tabs
from climate_dashboard.leases.lease_mixin import INDEX, LeaseMixin
from climateclient.models import Lease


class IndexView(times.LocalTimeMixin, tables.PagedTableMixin, tables.DataTableView):
    """The leases of the project, the newest first."""

    table_class = lease_tables.LeasesTable
    template_name = 'climate_dashboard/leases/index.html'
    page_title = _('Leases')
    #: Whether the project has no lease.
    is_first_use = False

    def get_data(self) -> list[Lease]:
        marker, order = self._get_marker()
        size = functions.get_page_size(self.request)
        filters = self.get_filters()
        if 'status' in filters:
            filters['status'] = filters['status'].upper()
        try:
            found = api.client(self.request).leases.list(
                project_id=self.request.user.project_id,
                sort=f'created_at:{order}',
                marker=marker,
                limit=size + 1,
                **filters,
            )
            leases = [*itertools.islice(found, size + 1)]
        except Exception as error:  # noqa: BLE001
            exceptions.handle(
                self.request, _('The leases cannot be listed: %s') % api.error_text(error)
            )
            return []
        self.is_first_use = not (leases or filters or marker)
        is_more = len(leases) > size
        leases = leases[:size]
        if order == 'asc':
            leases.reverse()
        # What comes from the other side is there in any case.
        self._has_more_data = is_more if order == 'desc' else True
        self._has_prev_data = is_more if order == 'asc' else marker is not None
        return leases

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | {
            'is_first_use': self.is_first_use,
            'may_create': self._may('reservation', 'climate:leases:create'),
            'may_launch': self._may('compute', 'os_compute_api:servers:create'),
            'documents': getattr(settings, 'CLIMATE_DOCUMENTATION_URL', ''),
        }

    def _may(self, service: str, rule: str) -> bool:
        return bool(policy.check(((service, rule),), self.request))


class DetailView(LeaseMixin, times.LocalTimeMixin, tabs.TabbedTableView):
    """One lease."""

    tab_group_class = lease_tabs.LeaseTabs
    template_name = 'climate_dashboard/leases/detail.html'
    page_title = '{{ lease.name|default:lease.id }}'

    def get_tabs(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        return super().get_tabs(request, *args, **kwargs, lease=self.lease)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = super().get_context_data(**kwargs)
        table = lease_tables.LeasesTable(self.request)
        context['lease'] = self.lease
        context['url'] = urls.reverse(INDEX)
        context['actions'] = table.render_row_actions(self.lease)
        return context


class LaunchView(allowed.AllowedMixin, times.LocalTimeMixin, HorizonTemplateView):
    """The step "Reserve" of Horizon's form that launches servers.

    The script ``climate.launch.js`` adds its fields and sends them as hints.
    """

    rule = 'climate:leases:create'
    template_name = 'climate_dashboard/leases/launch.html'

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        ends = resource_types.ON_END[resource_types.SERVER]
        return super().get_context_data(**kwargs) | {
            'zone': times.zone_name(),
            'ends': [(each, words.word(words.ENDS, each)) for each in ends],
        }
