# SPDX-License-Identifier: Apache-2.0
"""The page of the panel Usage."""

import datetime
from typing import Any

from django.utils.translation import gettext_lazy as _
from horizon import exceptions, tables

from climate_common import dates
from climate_dashboard import api, cloud_names, times
from climate_dashboard.leases import columns
from climateclient.models import ProjectUsage

#: What is counted -> its title.
_HOURS = (
    ('server_hours', _('Servers')),
    ('vcpu_hours', _('VCPUs')),
    ('volume_gb_hours', _('GiB of Volumes')),
    ('stack_hours', _('Stacks')),
    ('host_hours', _('Hosts')),
    ('floatingip_hours', _('Floating IPs')),
    ('network_hours', _('Networks')),
)
#: The columns of these hours.
_NAMES = ('servers', 'vcpus', 'gigabytes', 'stacks', 'hosts', 'addresses', 'networks')
_NOTHING = _('No project had a lease in this period. Choose another period above.')
_WEEK = datetime.timedelta(weeks=1)


def _column(name: str, title: Any) -> tables.Column:
    def all_of_it(usage: ProjectUsage) -> str:
        kinds = (usage.used, usage.reserved, usage.planned)
        hours = [each.get(name, 0) for each in kinds if each is not None]
        return ' / '.join(f'{each:.1f}' for each in hours) if any(hours) else '-'

    return tables.Column(all_of_it, verbose_name=title)


def _preempted(usage: ProjectUsage) -> str:
    """Return the hours that preemptible leases lost: of what they lost anything of."""
    hours = ((title, usage.preempted.get(name, 0)) for name, title in _HOURS)
    return ', '.join(f'{title}: {each:.1f}' for title, each in hours if each) or '-'


class UsageTable(tables.DataTable):
    """The hours of resources that projects used, and those that they reserved."""

    project = tables.Column('project_id', verbose_name=_('Project'))
    leases = tables.Column('leases', verbose_name=_('Leases'))
    servers, vcpus, gigabytes, stacks, hosts, addresses, networks = (
        _column(name, title) for name, title in _HOURS
    )
    preempted = tables.Column(_preempted, verbose_name=_('Preempted'))

    class Meta:
        name = 'usage'
        verbose_name = _('Hours: used / reserved')
        no_data_message = _NOTHING

    def __init__(self, request: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(request, *args, **kwargs)
        names = cloud_names.projects(request)
        self.columns['project'].filters = (lambda found: names.get(found, found),)

    def get_object_id(self, usage: ProjectUsage) -> str:
        return usage.project_id

    def get_object_display(self, usage: ProjectUsage) -> str:
        return usage.project_id


class PlannedTable(UsageTable):
    """The same for each week, with what is still to come."""

    week = columns.TimeColumn('start', verbose_name=_('Week from'))

    class Meta:
        name = 'planned'
        verbose_name = _('Hours: used / reserved / planned')
        no_data_message = _NOTHING
        columns = ('week', 'project', 'leases', *_NAMES, 'preempted')

    def get_object_id(self, usage: ProjectUsage) -> str:
        return f'{usage.project_id}-{usage.start}'


class IndexView(times.LocalTimeMixin, tables.DataTableView):
    """Show what projects reserved and used in a time: this month, if none is asked for."""

    table_class: Any = UsageTable
    template_name = 'climate_dashboard/admin/usage.html'
    page_title = _('Usage')
    planned: bool | None = None

    def get_data(self) -> list[ProjectUsage]:
        start, end = self._times()
        try:
            return api.client(self.request).usage(start, end, planned=self.planned)
        except Exception as error:  # noqa: BLE001
            exceptions.handle(
                self.request, _('The usage cannot be read: %s') % api.error_text(error)
            )
            return []

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        start, end = map(times.write, self._times())
        asked = {'start': start, 'end': end, 'zone': times.zone_name(), 'planned': self.planned}
        return super().get_context_data(**kwargs) | asked

    def _usual(self) -> tuple[datetime.datetime, datetime.datetime]:
        now = times.now()
        return now.replace(day=1, hour=0, minute=0), now

    def _times(self) -> tuple[datetime.datetime, datetime.datetime]:
        start, end = self._usual()
        return self._time('start') or start, self._time('end') or end

    def _time(self, name: str) -> datetime.datetime | None:
        try:
            return times.read(self.request.GET[name])
        except (KeyError, dates.DateError):
            return None


class PlannedView(IndexView):
    """Show by week what projects reserved and used, and what is still to come."""

    table_class = PlannedTable
    page_title = _('Planned Usage')
    planned = True

    def _usual(self) -> tuple[datetime.datetime, datetime.datetime]:
        now = times.now()
        return now - 4 * _WEEK, now + 8 * _WEEK
