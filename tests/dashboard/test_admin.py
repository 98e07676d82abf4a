# SPDX-License-Identifier: Apache-2.0
"""The panels of operators."""

import dataclasses
import datetime
import re
from typing import Any
from unittest import mock

from django import urls

from climate_dashboard import times
from climate_hosts.power.states import PowerState
from climateclient import exceptions
from climateclient.calendar import Bar, HostBars
from climateclient.host_models import Host
from climateclient.models import ProjectUsage
from tests.dashboard.pages import HOUR, NOW, PageTest, lease, refused

HOSTS = 'horizon:admin:climate_hosts:index'
ADD_HOST = 'horizon:admin:climate_hosts:add'
DISABLE = 'horizon:admin:climate_hosts:disable'
HOST_CALENDAR = 'horizon:admin:climate_host_calendar:index'
QUEUE = 'horizon:admin:climate_queue:index'
PRIORITY = 'horizon:admin:climate_queue:priority'
USAGE = 'horizon:admin:climate_usage:index'
PLANNED = 'horizon:admin:climate_usage:planned'


def host(**given: Any) -> Host:
    values: dict[str, Any] = {
        'id': '1',
        'hypervisor_hostname': 'compute4',
        'service_name': 'compute4',
        'reservable': True,
        'pool': 'default',
    }
    return Host(**{**values, **given})


class AdminTest(PageTest):
    logged_in_as = ('admin', 'member', 'reader')

    def setUp(self) -> None:
        super().setUp()
        self.hosts = self.client_of_leases.hosts
        self.hosts.list.return_value = [host()]
        names = {'p1': 'astronomy'}
        mock.patch('climate_dashboard.cloud_names.projects', return_value=names).start()

    def post(self, page: str, *arguments: str, **given: str) -> Any:
        return self.client.post(urls.reverse(page, args=arguments), given)

    def test_member_has_none_of_the_panels(self) -> None:
        self._log_in('member', 'reader')
        for name in (HOSTS, HOST_CALENDAR, QUEUE, USAGE, ADD_HOST):
            assert self.page(name).status_code in (302, 403), name

    def test_hosts_are_listed_and_can_be_disabled_or_removed(self) -> None:
        text = self.text(HOSTS)
        assert 'compute4' in text
        assert all(button in text for button in ('Add Host', 'Maintenance', 'Remove Host'))
        assert 'End Maintenance' not in text

    def test_host_is_added(self) -> None:
        response = self.post(ADD_HOST, name='compute5', pool='gold', empty='on')
        assert response.status_code == 302
        self.hosts.create.assert_called_once_with('compute5', pool='gold', empty=True)

    def test_refusal_of_a_host_is_told_in_the_form(self) -> None:
        self.hosts.create.side_effect = refused('it has servers', kind=exceptions.Conflict)
        assert 'it has servers' in self.post(ADD_HOST, name='compute5').content.decode()

    def test_maintenance_begins_with_a_reason_and_ends(self) -> None:
        self.hosts.update.return_value = host()
        assert self.post(DISABLE, '1', reason='new disk').status_code == 302
        self.hosts.update.assert_called_once_with('1', disabled=True, disabled_reason='new disk')
        self.hosts.list.return_value = [host(reservable=False, disabled_reason='new disk')]
        text = self.text(HOSTS)
        assert 'new disk' in text
        assert 'End Maintenance' in text
        self.hosts.list.return_value = [host(reservable=False, shared=True)]
        text = self.text(HOSTS)
        assert 'End Maintenance' not in text
        assert '/disable' in text
        self.hosts.list.return_value = [host(reservable=False, disabled_reason='new disk')]
        self.post(HOSTS, action='hosts__enable__1')
        self.hosts.update.assert_called_with('1', disabled=False)

    def test_host_is_removed(self) -> None:
        self.post(HOSTS, action='hosts__remove__1')
        self.hosts.delete.assert_called_once_with('1')

    def test_host_is_kept_on_or_may_sleep(self) -> None:
        assert 'Keep On' in self.text(HOSTS)
        self.post(HOSTS, action='hosts__keep_on__1')
        self.hosts.update.assert_called_once_with('1', kept_on=True)
        self.hosts.list.return_value = [host(kept_on=True)]
        text = self.text(HOSTS)
        assert 'On, kept on' in text
        assert 'Allow Power Off' in text
        self.post(HOSTS, action='hosts__allow_power_off__1')
        self.hosts.update.assert_called_with('1', kept_on=False)

    def test_power_of_hosts_is_shown(self) -> None:
        shown = ('On', 'Powering off', 'Off', 'Powering on')
        for power, word in zip(('awake', *PowerState), shown, strict=True):
            self.hosts.list.return_value = [host(power=power)]
            assert re.search(rf'>\s*{word}\s*</td>', self.text(HOSTS))

    def test_bars_of_hosts_say_whose_they_are(self) -> None:
        bars = tuple(
            Bar('l1', f'of {each}', each, 'ACTIVE', 'r1', NOW, NOW + HOUR) for each in ('p1', 'p2')
        )
        calendar = self.client_of_leases.calendar
        calendar.capacity.return_value = []
        calendar.hosts.return_value = [
            HostBars('1', 'compute4', 'default', True, bars[:1]),
            HostBars('2', 'compute5', 'default', True, bars[1:]),
        ]
        text = self.text(HOST_CALENDAR)
        assert 'of the project astronomy"' in text
        # One whose name is not known.
        assert 'of the project p2"' in text
        assert '<td>astronomy</td>' in text
        text = self.text(HOST_CALENDAR, q='astro')
        assert 'class="climate-label">compute4' in text
        assert 'class="climate-label">compute5' not in text

    def test_filter_says_that_it_did_not_look_at_all_hosts(self) -> None:
        calendar = self.client_of_leases.calendar
        hosts = [HostBars(str(n), f'compute{n}', 'default', reservable=True) for n in range(3000)]
        calendar.hosts.side_effect = lambda limit, **_: iter(hosts[:limit])
        calendar.capacity.return_value = []
        text = self.text(HOST_CALENDAR, q='compute2999')
        assert 'Only the first 1999 hosts were searched.' in text
        assert 'Nothing' not in text.split('<h2>Reservations')[1].split('</h2>')[1][:300]

    def test_calendar_of_hosts_has_a_row_for_each(self) -> None:
        calendar = self.client_of_leases.calendar
        calendar.hosts.return_value = [HostBars('1', 'compute4', 'default', reservable=False)]
        calendar.capacity.return_value = []
        text = self.text(HOST_CALENDAR)
        assert 'class="climate-label">compute4<small>default, no new leases' in text

    def promised(self, *bars: Bar, reservable: bool = True) -> str:
        """Return the calendar of a host with these leases."""
        calendar = self.client_of_leases.calendar
        calendar.hosts.return_value = [HostBars('1', 'compute4', 'default', reservable, bars)]
        calendar.capacity.return_value = []
        return self.text(HOST_CALENDAR)

    def test_time_in_which_a_host_is_free_leads_to_the_form_of_a_lease(self) -> None:
        first = Bar('l1', 'first', 'p1', 'ACTIVE', 'r1', NOW - HOUR, NOW + 2 * HOUR)
        second = Bar('l2', 'second', 'p1', 'PENDING', 'r2', NOW + 9 * HOUR, NOW + 20 * HOUR)
        text = self.promised(second, first)
        assert text.count('class="climate-slot climate-sign-right"') == 2
        start, end = (f'{times.round_up(NOW + 2 * HOUR):%Y-%m-%d+%H%%3A%M}', NOW + 9 * HOUR)
        assert f'create/?start={start}&amp;end={end:%Y-%m-%d+%H%%3A%M}"' in text
        # A cancelled lease keeps its times, but not its hosts.
        cancelled = dataclasses.replace(second, status='TERMINATED')
        assert self.promised(first, cancelled).count('class="climate-slot ') == 1
        assert 'climate-slot' not in self.promised(first, reservable=False)

    def test_sign_of_a_gap_is_not_on_the_side_of_a_name(self) -> None:
        # The name of a short lease at the end of the week is at its left.
        late = Bar('l1', 'late', 'p1', 'PENDING', 'r1', NOW + 100 * HOUR, NOW + 105 * HOUR)
        text = self.promised(late)
        assert 'climate-bar climate-pending climate-before' in text
        assert re.findall(r'climate-sign-(\w+)', text) == ['left', 'right']

    def test_lease_that_its_reader_may_not_see_has_no_link(self) -> None:
        bar = Bar('l1', 'first', 'p1', 'ACTIVE', 'r1', NOW - HOUR, NOW + 2 * HOUR)
        link = urls.reverse('horizon:project:climate_leases:detail', args=['l1'])
        assert self.promised(bar).count(f'href="{link}"') == 2
        mock.patch('climate_dashboard.calendar.views.policy.check', return_value=False).start()
        text = self.promised(bar)
        assert f'href="{link}"' not in text
        assert 'role="img" tabindex="0"' in text
        assert '<td>first</td>' in text

    def test_tables_without_rows_say_how_to_get_some(self) -> None:
        self.hosts.list.return_value = []
        assert 'No host is in a pool.' in self.text(HOSTS)
        self.leases.list.return_value = []
        assert 'No lease is queued.' in self.text(QUEUE)
        self.client_of_leases.usage.return_value = []
        for name in (USAGE, PLANNED):
            assert 'No project had a lease in this period.' in self.text(name)
        calendar = self.client_of_leases.calendar
        calendar.hosts.return_value, calendar.capacity.return_value = [], []
        assert 'The panel Hosts adds hosts' in self.text(HOST_CALENDAR)

    def test_filter_of_the_calendar_finds_all_hosts(self) -> None:
        calendar = self.client_of_leases.calendar
        hosts = [HostBars(str(n), f'compute{n}', 'default', reservable=True) for n in range(500)]
        calendar.hosts.side_effect = lambda limit, **_: iter(hosts[:limit])
        calendar.capacity.return_value = []
        assert 'class="climate-label">compute499<' in self.text(HOST_CALENDAR, q='compute499')
        self.text(HOST_CALENDAR)
        assert calendar.hosts.call_args.kwargs['limit'] == 201

    def test_queue_has_what_waits_in_its_order(self) -> None:
        self.leases.list.return_value = [
            lease(id='b', name='second', status='WAITING', queue_position=2, project_id='p1'),
            lease(id='a', name='first', status='WAITING', queue_position=1),
        ]
        text = self.text(QUEUE)
        assert self.leases.list.call_args.kwargs['status'] == 'WAITING'
        assert text.index('>first<') < text.index('>second<')
        assert 'astronomy' in text
        assert self.post(PRIORITY, 'b', priority='9').status_code == 302
        self.leases.update.assert_called_once_with('b', priority=9)

    def test_queue_has_pages_and_says_what_it_leaves_out(self) -> None:
        waiting = [
            lease(id=f'l{n}', name=f'n{n}', status='WAITING', queue_position=n) for n in range(7)
        ]
        self.leases.list.return_value = waiting[::-1]
        self.client.cookies['API_RESULT_PAGE_SIZE'] = '3'
        for query, first, last, forth, back in (
            ({}, 0, 2, True, False),
            ({'after': 'l2'}, 3, 5, True, True),
            ({'after': 'l5'}, 6, 6, False, True),
            ({'before': 'l6'}, 3, 5, True, True),
            ({'before': 'l2'}, 0, 2, True, False),
            ({'after': 'gone'}, 0, 2, True, False),
        ):
            text = self.text(QUEUE, **query)
            shown = [n for n in range(7) if f'>n{n}<' in text]
            assert shown == [*range(first, last + 1)], query
            assert (f'?after=l{last}"' in text) is forth, query
            assert (f'?before=l{first}"' in text) is back, query
        assert 'Only' not in text
        self.leases.list.return_value = waiting * 200
        assert 'Only 1000 of the queued leases are shown.' in self.text(QUEUE)

    def test_usage_is_of_the_time_that_is_asked_for(self) -> None:
        used = {'host_hours': 3.25}
        lost = {'host_hours': 1.5, 'server_hours': 0, 'vcpu_hours': 2}
        found = ProjectUsage(
            'p1', NOW, NOW, 4, reserved={'host_hours': 8}, used=used, preempted=lost
        )
        self.client_of_leases.usage.return_value = [found]
        text = self.text(USAGE, start='2026-10-01 00:00', end='never')
        assert 'astronomy' in text
        assert '3.2 / 8.0' in text
        assert 'VCPUs: 2.0, Hosts: 1.5' in text
        assert self.client_of_leases.usage.call_args.kwargs == {'planned': None}
        # A script of Horizon's keeps back what does not say where it is sent.
        assert f'action="{urls.reverse(USAGE)}" method="GET"' in text
        start, end = self.client_of_leases.usage.call_args.args
        assert start == datetime.datetime(2026, 10, 1, tzinfo=datetime.UTC)
        assert end > start

    def test_planned_usage_is_shown_by_week(self) -> None:
        week = datetime.timedelta(weeks=1)
        found = [
            ProjectUsage('p1', NOW + n * week, NOW, 1, planned={'host_hours': n}) for n in (1, 2)
        ]
        self.client_of_leases.usage.return_value = found
        text = self.text(PLANNED)
        start, end = self.client_of_leases.usage.call_args.args
        assert start < NOW + week < end
        assert self.client_of_leases.usage.call_args.kwargs == {'planned': True}
        assert 'Preempted' in text
        assert text.index('0.0 / 0.0 / 1.0') < text.index('0.0 / 0.0 / 2.0')
        assert f'{NOW + week:%Y-%m-%d %H:%M} UTC' in text
        assert f'action="{urls.reverse(PLANNED)}" method="GET"' in text
