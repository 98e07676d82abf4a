# SPDX-License-Identifier: Apache-2.0
"""The pages of calendars."""

import functools
import itertools
from typing import Any, Final

from django.utils.translation import gettext_lazy as _
from horizon import exceptions
from horizon.views import HorizonTemplateView
from openstack_dashboard import policy

from climate_dashboard import api, cloud_names, times, words
from climate_dashboard.calendar import drawing
from climate_dashboard.calendar.window import Window
from climateclient.calendar import Capacity
from climateclient.client import SERVICE_TYPE

#: Maximum number of rows of a calendar; the sums include the rest.
ROWS: Final = 200
#: Maximum number of bars, or of hosts if there is a filter. One more is read, to find out whether
#: there are more: two pages of the service.
MOST: Final = 1999


class CalendarView(times.LocalTimeMixin, HorizonTemplateView):
    """A calendar: capacity over time, and rows of bars below it."""

    template_name = 'climate_dashboard/calendar/index.html'
    page_title: Any = _('Calendar')
    groups: tuple[tuple[str, Any], ...] = ()
    #: What is said if there is more than was looked through.
    partial: Any
    #: Whether it has the leases of all projects.
    of_all = False

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        window = Window.read(self.request.GET, times.now())
        rows, is_partial = self._read(lambda: self.rows(window), ([], False))
        capacity = self._read(lambda: self._capacity(window), [])
        return super().get_context_data(**kwargs) | {
            'window': window,
            'zone': times.zone_name(),
            'ticks': window.ticks(),
            'earlier': window.moved(-1),
            'later': window.moved(1),
            'today': window.query(),
            'rows': rows[:ROWS],
            'is_cut': len(rows) > ROWS,
            'most': ROWS,
            'partial': self.partial % MOST if is_partial else '',
            'capacity': self._capacity_rows(capacity, window),
            'slots': self.slots(window),
            'q': self.wanted,
            'of_all': self.of_all,
            'groups': [(name, title, name == self.group) for name, title in self.groups],
            'first': times.show(window.start),
            'last': times.show(window.end),
        }

    @property
    def group(self) -> str:
        """Return what the rows stand for, as the address says."""
        asked = self.request.GET.get('group_by', '')
        names = [name for name, _title in self.groups]
        return asked if asked in names else next(iter(names), '')

    @property
    def wanted(self) -> str:
        """Return the text that rows must have to be shown; empty: all are."""
        return self.request.GET.get('q', '').strip()

    def rows(self, window: Window) -> tuple[list[drawing.Row], bool]:
        """Return the rows that are wanted, one more than are drawn if there are more.

        :returns: beside them whether there is something that was not looked through
        """
        raise NotImplementedError

    def _capacity(self, window: Window) -> list[Capacity]:
        return api.client(self.request).calendar.capacity(since=window.start, until=window.end)

    def _capacity_rows(self, capacity: list[Capacity], window: Window) -> list[drawing.Row]:
        # Neutron is asked only if there are floating IPs, once for all of them.
        has_addresses = any(each.kind == words.FLOATING_IP_KIND for each in capacity)
        names = cloud_names.external_networks(self.request) if has_addresses else {}
        return drawing.capacity_rows(capacity, window, self.may_create(), names)

    def slots(self, window: Window) -> list[drawing.Slot]:
        """Return the links of the row that leads to the form of a lease; none by default."""
        return []

    def may_create(self) -> bool:
        """Tell whether the user may create leases."""
        return bool(policy.check(((SERVICE_TYPE, 'climate:leases:create'),), self.request))

    def _read(self, read: Any, nothing: Any) -> Any:
        try:
            return read()
        except Exception as error:  # noqa: BLE001
            exceptions.handle(
                self.request, _('The calendar cannot be read: %s') % api.error_text(error)
            )
            return nothing


class LeasesView(CalendarView):
    """Show the reservations of the project."""

    groups = (('lease', _('Leases')), ('resource', _('Resources')))
    partial = _('Only the first %d reservations of this period were searched.')

    def rows(self, window: Window) -> tuple[list[drawing.Row], bool]:
        calendar, rows, bars = api.client(self.request).calendar, [], []
        # Mostly a row is one bar: then no more are asked for than are drawn.
        for most in (MOST + 1,) if self.wanted else (ROWS + 1, MOST + 1):
            found = calendar.bars(
                since=window.start,
                until=window.end,
                group_by=self.group,
                free_until=True,
                limit=most,
            )
            bars = [*itertools.islice(found, most)]
            drawn = drawing.lease_rows(bars[:MOST], window, self.group == 'lease', self.wanted)
            rows = [*itertools.islice(drawn, ROWS + 1)]
            if len(bars) < most or len(rows) > ROWS:
                break
        return rows, len(bars) > MOST

    def slots(self, window: Window) -> list[drawing.Slot]:
        return drawing.slots(window) if self.may_create() else []


class HostsView(CalendarView):
    """Show operators the allocations of the hosts of the pools."""

    page_title = _('Calendar of Hosts')
    of_all = True
    partial = _('Only the first %d hosts were searched.')

    def rows(self, window: Window) -> tuple[list[drawing.Row], bool]:
        most = MOST if self.wanted else ROWS
        found = api.client(self.request).calendar.hosts(
            since=window.start, until=window.end, limit=most + 1
        )
        hosts = [*itertools.islice(found, most + 1)]
        is_partial = len(hosts) > MOST
        names = cloud_names.projects(self.request)
        may = drawing.May(functools.cache(self._may_see), self.may_create())
        rows = drawing.host_rows(hosts[:MOST], window, names, self.wanted, may)
        return [*itertools.islice(rows, ROWS + 1)], is_partial

    def _may_see(self, project_id: str) -> bool:
        rule = ((SERVICE_TYPE, 'climate:leases:get'),)
        return bool(policy.check(rule, self.request, {'project_id': project_id}))
