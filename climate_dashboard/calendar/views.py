# SPDX-License-Identifier: Apache-2.0
"""The pages of calendars."""

import itertools
from typing import Any, Final

from django.utils.translation import gettext_lazy as _
from horizon import exceptions
from horizon.views import HorizonTemplateView
from openstack_dashboard import policy

from climate_dashboard import api, times
from climate_dashboard.calendar import drawing
from climate_dashboard.calendar.window import Window
from climateclient.calendar import Capacity
from climateclient.client import SERVICE_TYPE

#: Of so many rows a calendar is drawn; the rest is in the sums.
ROWS: Final = 200
#: Of so many bars, or hosts if some are looked for, a calendar is made.
_MOST: Final = 2000


class CalendarView(times.LocalTimeMixin, HorizonTemplateView):
    """A calendar: capacity over time, and rows of bars below it."""

    template_name = 'climate_dashboard/calendar/index.html'
    page_title: Any = _('Calendar')
    groups: tuple[tuple[str, Any], ...] = ()

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        window = Window.read(self.request.GET, times.now())
        rows = self._read(lambda: self.rows(window))
        if self.wanted:
            rows = [each for each in rows if _matches(each, self.wanted.lower())]
        capacity = self._read(lambda: self._capacity(window))
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
            'capacity': drawing.capacity_rows(capacity, window, self._may_create()),
            'q': self.wanted,
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

    def rows(self, window: Window) -> list[drawing.Row]:
        """Return the rows; one more than are drawn if there are more."""
        raise NotImplementedError

    def _capacity(self, window: Window) -> list[Capacity]:
        return api.client(self.request).calendar.capacity(since=window.start, until=window.end)

    def _may_create(self) -> bool:
        return bool(policy.check(((SERVICE_TYPE, 'climate:leases:create'),), self.request))

    def _read(self, read: Any) -> Any:
        try:
            return read()
        except Exception as error:  # noqa: BLE001
            exceptions.handle(self.request, _('The calendar cannot be read: %s') % api.told(error))
            return []


class LeasesView(CalendarView):
    """Show what is promised to the project."""

    groups = (('lease', _('Leases')), ('resource', _('Resources')))

    def rows(self, window: Window) -> list[drawing.Row]:
        found = api.client(self.request).calendar.bars(
            since=window.start, until=window.end, group_by=self.group, limit=_MOST
        )
        bars = itertools.islice(found, _MOST)
        return drawing.lease_rows(bars, window, by_lease=self.group == 'lease')


class HostsView(CalendarView):
    """Show operators what is promised of the hosts of the pools."""

    page_title = _('Calendar of Hosts')

    def rows(self, window: Window) -> list[drawing.Row]:
        most = _MOST if self.wanted else ROWS + 1
        found = api.client(self.request).calendar.hosts(
            since=window.start, until=window.end, limit=most
        )
        return drawing.host_rows(itertools.islice(found, most), window)


def _matches(row: drawing.Row, wanted: str) -> bool:
    texts = [row.label, row.note, *(each.name for each in row.bars)]
    return any(wanted in text.lower() for text in texts)
