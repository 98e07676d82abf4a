# SPDX-License-Identifier: Apache-2.0
"""The page of the panel Usage."""

import datetime
from typing import Any

from django.utils.translation import gettext_lazy as _
from horizon import exceptions, tables

from climate_common import dates
from climate_dashboard import api, projects, times
from climateclient.models import ProjectUsage

#: What is counted -> its title.
_HOURS = (
    ('server_hours', _('Servers')),
    ('vcpu_hours', _('VCPUs')),
    ('volume_gb_hours', _('GB of Volumes')),
    ('stack_hours', _('Stacks')),
    ('host_hours', _('Hosts')),
    ('floatingip_hours', _('Floating IPs')),
    ('network_hours', _('Networks')),
)


def _column(name: str, title: Any) -> tables.Column:
    def both(usage: ProjectUsage) -> str:
        used, reserved = (each.get(name, 0) for each in (usage.used, usage.reserved))
        return f'{used:.1f} / {reserved:.1f}' if used or reserved else '-'

    return tables.Column(both, verbose_name=title)


class UsageTable(tables.DataTable):
    """The hours of resources that projects used, and those that they reserved."""

    project = tables.Column('project_id', verbose_name=_('Project'))
    leases = tables.Column('leases', verbose_name=_('Leases'))
    servers, vcpus, gigabytes, stacks, hosts, addresses, networks = (
        _column(name, title) for name, title in _HOURS
    )

    class Meta:
        name = 'usage'
        verbose_name = _('Hours: used / reserved')

    def __init__(self, request: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(request, *args, **kwargs)
        names = projects.names(request)
        self.columns['project'].filters = (lambda found: names.get(found, found),)

    def get_object_id(self, usage: ProjectUsage) -> str:
        return usage.project_id

    def get_object_display(self, usage: ProjectUsage) -> str:
        return usage.project_id


class IndexView(times.LocalTimeMixin, tables.DataTableView):
    """Show what projects reserved and used in a time: this month, if none is asked for."""

    table_class = UsageTable
    template_name = 'climate_dashboard/admin/usage.html'
    page_title = _('Usage')

    def get_data(self) -> list[ProjectUsage]:
        start, end = self._times()
        try:
            return api.client(self.request).usage(start, end)
        except Exception as error:  # noqa: BLE001
            exceptions.handle(self.request, _('The usage cannot be read: %s') % api.told(error))
            return []

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        start, end = map(times.write, self._times())
        asked = {'start': start, 'end': end, 'zone': times.zone_name()}
        return super().get_context_data(**kwargs) | asked

    def _times(self) -> tuple[datetime.datetime, datetime.datetime]:
        now = times.now()
        start = self._time('start') or now.replace(day=1, hour=0, minute=0)
        return start, self._time('end') or now

    def _time(self, name: str) -> datetime.datetime | None:
        try:
            return times.read(self.request.GET[name])
        except (KeyError, dates.DateError):
            return None
