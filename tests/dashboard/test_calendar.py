# SPDX-License-Identifier: Apache-2.0
"""The panel Calendar, and how it is drawn."""

import datetime
import zoneinfo
from typing import Any
from unittest import mock

import pytest
from django import urls
from openstack import exceptions as sdk_exceptions

from climate_dashboard import times
from climate_dashboard.calendar import drawing, views
from climate_dashboard.calendar.window import DAY, HOUR, Window
from climateclient.calendar import Bar, Capacity, Step
from tests.dashboard.pages import NOW, PageTest, refused

INDEX = 'horizon:project:climate_calendar:index'
BERLIN = zoneinfo.ZoneInfo('Europe/Berlin')
MONDAY = datetime.datetime(2082, 11, 23, 12, tzinfo=BERLIN)


def bar(**given: Any) -> Bar:
    values: dict[str, Any] = {
        'lease_id': 'l1',
        'lease_name': 'lease1',
        'project_id': '1',
        'status': 'ACTIVE',
        'reservation_id': 'reservation1',
        'start_date': NOW - HOUR,
        'end_date': NOW + DAY,
        'resource_type': 'virtual:instance',
    }
    return Bar(**{**values, **given})


def test_window_is_a_week_with_a_quarter_of_it_past_by_default() -> None:
    window = Window.read({}, MONDAY)
    assert window.end - window.start == 7 * DAY
    assert window.now_place == '25.000'
    assert Window.read({'span': '99y', 'start': 'never'}, MONDAY) == window


def test_window_moves_by_its_length() -> None:
    window = Window.read({'span': '1d', 'start': '2082-11-23 00:00'}, MONDAY)
    assert window.moved(1) == 'span=1d&start=2082-11-24+00%3A00%2B01%3A00'
    assert window.moved(-1) == 'span=1d&start=2082-11-22+00%3A00%2B01%3A00'


@pytest.mark.parametrize(
    ('start', 'hours'), [('2026-03-29 00:00', 23), ('2026-10-25 00:00+02:00', 25)]
)
def test_days_on_which_the_clocks_change_have_their_length(start: str, hours: int) -> None:
    window = Window.read({'span': '7d', 'start': start}, MONDAY)
    first, second = window.ticks()[:2]
    assert float(first.width) == pytest.approx(100 * hours / 168, abs=0.001)
    assert float(second.width) == pytest.approx(100 * 24 / 168, abs=0.001)


def labels(span: str, start: str, zone: str = 'Europe/Berlin') -> list[tuple[str, float]]:
    """Return the lines of a window, and how many minutes each is before the next."""
    now = MONDAY.astimezone(zoneinfo.ZoneInfo(zone))
    window = Window.read({'span': span, 'start': start}, now)
    minutes = (window.end.astimezone(datetime.UTC) - window.start.astimezone(datetime.UTC)) / HOUR
    return [(tick.label, round(float(tick.width) * minutes * 60 / 100)) for tick in window.ticks()]


def test_hour_that_does_not_come_has_no_line() -> None:
    assert labels('6h', '2026-03-29 00:00') == [
        ('00:00 CET', 60),
        ('01:00 CET', 60),
        ('03:00 CEST', 60),
        ('04:00 CEST', 60),
        ('05:00 CEST', 60),
        ('06:00 CEST', 60),
    ]


def test_hour_that_comes_twice_has_two_lines_with_its_zones() -> None:
    assert labels('6h', '2026-10-25 00:00+02:00') == [
        ('00:00 CEST', 60),
        ('01:00 CEST', 60),
        ('02:00 CEST', 60),
        ('02:00 CET', 60),
        ('03:00 CET', 60),
        ('04:00 CET', 60),
    ]


def test_three_hours_stay_three_but_where_the_clocks_change() -> None:
    widths = [minutes for _label, minutes in labels('1d', '2026-03-29 00:00')]
    assert widths == [120, *[180] * 7, 60]
    widths = [minutes for _label, minutes in labels('1d', '2026-10-25 00:00+02:00')]
    assert widths == [240, *[180] * 6, 120]


def test_day_whose_midnight_is_skipped_begins_when_its_clock_does() -> None:
    found = labels('3d', '2026-09-05 00:00', 'America/Santiago')
    assert found == [
        ('Sat 5 Sep', 1440),
        ('Sun 6 Sep', 1380),
        ('Mon 7 Sep', 1440),
        ('Tue 8 Sep', 60),
    ]


def test_hours_are_whole_ones_of_clocks_with_quarters() -> None:
    found = labels('6h', '2082-11-23 00:20', 'Asia/Kathmandu')
    assert found[:2] == [('00:20', 40), ('01:00', 60)]


def test_weekends_are_marked() -> None:
    window = Window.read({'span': '7d', 'start': '2082-11-23 00:00'}, MONDAY)
    assert [tick.is_weekend for tick in window.ticks()] == [False] * 5 + [True] * 2


@pytest.mark.parametrize('span', ['1h', '6h', '1d', '3d', '14d', '28d'])
def test_lines_divide_the_whole_window(span: str) -> None:
    window = Window.read({'span': span, 'start': '2082-11-23 05:30'}, MONDAY)
    ticks = window.ticks()
    assert sum(float(tick.width) for tick in ticks) == pytest.approx(100, abs=0.1)
    assert 1 < len(ticks) <= 30


def test_slots_of_a_window_begin_now_and_end_with_it() -> None:
    window = Window.read({'span': '7d', 'start': '2082-11-22 00:00'}, MONDAY)
    found = drawing.slots(window)
    assert len(found) == 6
    assert 'start=2082-11-23+11%3A00&end=2082-11-23+23%3A00' in found[0].url
    assert 'start=2082-11-27+23%3A00&end=2082-11-28+23%3A00' in found[-1].url
    assert found[0].left == window.now_place
    assert drawing.slots(Window.read({'start': '2082-11-01 00:00'}, MONDAY)) == []


class CalendarTest(PageTest):
    def setUp(self) -> None:
        super().setUp()
        self.calendar = self.client_of_leases.calendar
        self.calendar.bars.return_value = [bar()]
        self.calendar.capacity.return_value = []

    def test_bar_is_a_link_that_says_what_it_is(self) -> None:
        text = self.text(INDEX)
        assert '<title>Calendar' in text
        end = f'{NOW + DAY:%Y-%m-%d %H:%M} UTC'
        start = f'{NOW - HOUR:%Y-%m-%d %H:%M} UTC'
        assert f'aria-label="lease1, Active, from {start} to {end}, for Server"' in text
        assert f'<td>{end}</td>' in text
        assert 'class="climate-now"' in text

    def test_numbers_have_a_point_in_every_language(self) -> None:
        for language in ('de', 'ja'):
            self.client.cookies['django_language'] = language
            text = self.text(INDEX)
            assert 'style="left: 2' in text
            assert not [part for part in text.split('style="left: ')[1:] if ',' in part[:8]]

    def test_name_of_a_short_bar_is_beside_it(self) -> None:
        self.calendar.bars.return_value = [bar(end_date=NOW)]
        assert 'climate-after' in self.text(INDEX)
        self.calendar.bars.return_value = [
            bar(start_date=NOW + 5 * DAY, end_date=NOW + 5 * DAY + HOUR)
        ]
        assert 'climate-before' in self.text(INDEX)

    def test_name_is_where_there_is_room_for_it(self) -> None:
        for hours, side in ((40, 'after'), (50, 'after'), (70, 'before')):
            start = NOW + hours * HOUR
            self.calendar.bars.return_value = [bar(start_date=start, end_date=start + 18 * HOUR)]
            assert f'climate-{side}' in self.text(INDEX)

    def test_forms_say_where_they_are_sent(self) -> None:
        """A script of Horizon's keeps those back that do not say it."""
        assert f'action="{urls.reverse(INDEX)}" method="GET"' in self.text(INDEX)

    def test_text_over_a_bar_has_what_is_known_of_its_lease(self) -> None:
        self.calendar.bars.return_value = [
            bar(resource_id=str(number) * 8, reservation_id=str(number)) for number in range(5)
        ]
        text = self.text(INDEX)
        assert text.count('class="climate-tip"') == 1
        tip = text.split('class="climate-tip"')[1].split('</span>')[0]
        times = f'{NOW - HOUR:%Y-%m-%d %H:%M} UTC &ndash; {NOW + DAY:%Y-%m-%d %H:%M} UTC'
        resources = 'Server 00000000, Server 11111111, Server 22222222 and 2 more'
        for part in ('<strong>lease1</strong>', 'Active', times, resources):
            assert part in tip

    def test_text_over_a_late_bar_extends_to_the_left(self) -> None:
        late = bar(start_date=NOW + 4 * DAY, end_date=NOW + 5 * DAY)
        self.calendar.bars.return_value = [late]
        assert 'class="climate-tip climate-late"' in self.text(INDEX)

    def test_row_of_new_leases_leads_to_the_form(self) -> None:
        self.calendar.bars.return_value = []
        text = self.text(INDEX)
        assert text.count('class="climate-slot climate-sign-middle"') == 6
        assert 'aria-label="Create a lease, from ' in text
        assert 'A plus sign in the row New lease' in text
        self._log_in('reader')
        text = self.text(INDEX)
        assert 'climate-slot' not in text
        assert 'A plus sign' not in text

    def test_cloud_without_pools_is_explained(self) -> None:
        assert 'This cloud has no hosts, addresses or networks for leases' in self.text(INDEX)
        self.calendar.capacity.return_value = [Capacity('host', 'default', 'host', ())]
        assert 'This cloud has no hosts' not in self.text(INDEX)

    def test_reader_sees_what_is_free_without_links(self) -> None:
        steps = (Step(NOW + HOUR, 4, 2, 1, 2),)
        self.calendar.capacity.return_value = [Capacity('host', 'default', 'host', steps)]
        assert 'climate_leases/create/' in self.text(INDEX)
        self._log_in('reader')
        text = self.text(INDEX)
        assert '2 of 4 free, 1 are yours' in text
        assert 'climate_leases/create/' not in text

    def test_floating_ips_are_shown_with_the_name_of_their_network(self) -> None:
        found = [Capacity('floating IP', name, 'floating IP', ()) for name in ('n1', 'n2')]
        self.calendar.capacity.return_value = found
        network = mock.Mock(id='n1')
        network.name = 'public'
        with mock.patch(
            'climate_dashboard.cloud_names.neutron.network_list', return_value=[network]
        ) as network_list:
            text = self.text(INDEX)
        assert network_list.call_count == 1
        for name in ('public', 'n2'):
            assert f'class="climate-label">Floating IPs<small>{name}</small>' in text

    def test_floating_ips_have_the_ids_of_networks_if_neutron_fails(self) -> None:
        self.calendar.capacity.return_value = [Capacity('floating IP', 'n1', 'floating IP', ())]
        error = sdk_exceptions.SDKException('down')
        with mock.patch('climate_dashboard.cloud_names.neutron.network_list', side_effect=error):
            assert '<small>n1</small>' in self.text(INDEX)

    def test_what_is_counted_whole_comes_first(self) -> None:
        units = ('disk_gb', 'host', 'vcpus')
        found = [Capacity('host', 'default', unit, ()) for unit in units]
        rows = drawing.capacity_rows(found, Window.read({}, NOW), True, {})
        assert [row.label for row in rows] == ['Hosts', 'Hosts: Disk', 'Hosts: VCPUs']

    def test_rows_are_leases_or_resources_and_can_be_filtered(self) -> None:
        self.calendar.bars.return_value = [
            bar(),
            bar(resource_id='0123456789'),
            bar(lease_id='l2', lease_name='other'),
        ]
        text = self.text(INDEX)
        assert text.count('class="climate-label">lease1') == 1
        assert 'class="climate-label">Server 01234567' in self.text(INDEX, group_by='resource')
        text = self.text(INDEX, q='OTHER')
        assert 'class="climate-label">other' in text
        assert 'class="climate-label">lease1' not in text

    def test_window_of_the_address_is_asked_for(self) -> None:
        self.text(INDEX, span='1d', start='2082-12-01 00:00')
        asked = self.calendar.bars.call_args.kwargs
        assert asked['since'] == datetime.datetime(2082, 12, 1, tzinfo=datetime.UTC)
        assert asked['until'] == asked['since'] + DAY

    def test_links_to_other_times_keep_what_is_shown(self) -> None:
        text = self.text(INDEX, group_by='resource', q='a&b')
        links = [each.split('"')[0] for each in text.split('href="?')[1:] if 'span=' in each]
        assert len(links) == 10
        assert all(each.endswith('&amp;group_by=resource&amp;q=a%26b') for each in links)

    def test_no_more_rows_are_drawn_than_can_be_read(self) -> None:
        many = [bar(lease_id=str(number), lease_name=f'n{number}') for number in range(300)]
        self.calendar.bars.return_value = many
        text = self.text(INDEX)
        assert text.count('class="climate-label">n') == 200
        assert 'The first 200 rows are shown' in text

    def test_leases_of_many_resources_are_all_asked_for(self) -> None:
        many = [bar(lease_id=str(n // 3), lease_name=f'n{n // 3}') for n in range(450)]
        self.calendar.bars.side_effect = lambda limit, **_: iter(many[:limit])
        assert self.text(INDEX).count('class="climate-label">n') == 150
        assert [each.kwargs['limit'] for each in self.calendar.bars.call_args_list] == [201, 2000]

    def test_calendar_says_that_it_did_not_look_at_all_reservations(self) -> None:
        most = views.MOST
        many = [bar(reservation_id=str(number)) for number in range(most + 1)]
        self.calendar.bars.return_value = many[:most]
        warning = f'Only the first {most} reservations of this period were searched.'
        for query in ({}, {'q': 'nowhere'}):
            assert warning not in self.text(INDEX, **query)
        assert 'No reservation of this period matches the filter.' in self.text(INDEX, q='nowhere')
        self.calendar.bars.return_value = many
        for query in ({}, {'q': 'nowhere'}):
            text = self.text(INDEX, **query)
            assert warning in text
            assert 'A shorter period shows the rest.' in text
            assert 'is reserved in this period' not in text

    def test_bar_says_until_when_its_lease_can_be_extended(self) -> None:
        until = NOW + 2 * DAY
        shown = f'{until:%Y-%m-%d %H:%M} UTC'
        assert 'class="climate-more"' not in self.text(INDEX)
        assert self.calendar.bars.call_args.kwargs['free_until'] is True
        self.calendar.bars.return_value = [bar(free_until=until)]
        text = self.text(INDEX)
        assert f', can be extended until {shown}"' in text
        assert f'<td>{shown}</td>' in text
        # A day of seven.
        width = text.split('class="climate-more"')[1].split('width: ')[1].split('%')[0]
        assert float(width) == pytest.approx(100 / 7, abs=0.01)
        self.calendar.bars.return_value = [bar(free_until=until, status='TERMINATED')]
        assert 'climate-more' not in self.text(INDEX)

    def test_lease_is_one_bar_that_ends_with_what_can_be_extended_least(self) -> None:
        more = [NOW + 3 * DAY, None, NOW + 2 * DAY]
        self.calendar.bars.return_value = [
            bar(reservation_id=str(number), free_until=each) for number, each in enumerate(more)
        ]
        text = self.text(INDEX)
        assert text.count('<a class="climate-bar') == 1
        assert f'can be extended until {NOW + 2 * DAY:%Y-%m-%d %H:%M} UTC' in text

    def test_lease_of_resources_with_different_ends_has_a_bar_for_each(self) -> None:
        ends = [NOW + DAY, NOW + 2 * DAY]
        more = [NOW + 3 * DAY, NOW + 4 * DAY]
        self.calendar.bars.return_value = [
            bar(reservation_id=str(number), end_date=end, free_until=until)
            for number, (end, until) in enumerate(zip(ends, more, strict=True))
        ]
        text = self.text(INDEX)
        assert text.count('class="climate-label">lease1') == 1
        assert text.count('<a class="climate-bar') == 2
        for end, until in zip(ends, more, strict=True):
            shown = [f'{each:%Y-%m-%d %H:%M} UTC' for each in (end, until)]
            assert f'to {shown[0]}, for Server, can be extended until {shown[1]}"' in text
            assert all(f'<td>{each}</td>' in text for each in shown)
        # Both begin an hour before now; one lasts a day longer of seven.
        parts = [
            each.split('style="left: ')[1] for each in text.split('<a class="climate-bar')[1:]
        ]
        left, widths = zip(
            *(each.split('"')[0].split('%; width: ') for each in parts), strict=True
        )
        assert left[0] == left[1]
        first, second = (float(each.split('%')[0]) for each in widths)
        assert second - first == pytest.approx(100 / 7, abs=0.01)

    def test_further_names_of_a_resource_are_in_the_language_of_the_user(self) -> None:
        names = ('203.0.113.7', '203.0.113.8', '203.0.113.9')
        found = bar(resource_type='virtual:floatingip', resource_names=names)
        self.calendar.bars.return_value = [found]
        assert 'Floating IPs 203.0.113.7 and 2 more' in self.text(INDEX, group_by='resource')
        self.client.cookies['django_language'] = 'de'
        assert '203.0.113.7 und 2 weitere' in self.text(INDEX, group_by='resource')

    def test_what_is_free_leads_to_the_form_of_a_lease(self) -> None:
        steps = (Step(NOW + HOUR, 4, 2, 1, 2), Step(NOW + DAY, 4, 4, 0, 0))
        self.calendar.capacity.return_value = [Capacity('host', 'default', 'host', steps)]
        text = self.text(INDEX)
        free = (times.round_up(NOW + HOUR), NOW + DAY)
        start, end = (f'{time:%Y-%m-%d+%H%%3A%M}' for time in free)
        assert f'/climate_leases/create/?start={start}&amp;end={end}"' in text
        assert '2 of 4 free, 1 are yours' in text
        assert text.count('class="climate-bar climate-free-0 ') == 1

    def test_bars_with_the_last_date_are_shown(self) -> None:
        last = datetime.datetime.max.replace(tzinfo=datetime.UTC)
        self.calendar.bars.return_value = [bar(end_date=last, free_until=last)]
        steps = (Step(NOW + HOUR, 4, 2, 1, 2),)
        self.calendar.capacity.return_value = [Capacity('host', 'default', 'host', steps)]
        self.client.cookies['django_timezone'] = 'Asia/Tokyo'
        assert '9999-12-31 23:59 UTC' in self.text(INDEX)

    def test_what_is_free_within_a_minute_is_offered_from_the_next_one(self) -> None:
        since = (NOW + HOUR).replace(second=30)
        steps = (Step(since, 4, 2, 1, 2), Step(NOW + DAY, 4, 4, 0, 0))
        self.calendar.capacity.return_value = [Capacity('host', 'default', 'host', steps)]
        shown = since.replace(second=0) + datetime.timedelta(minutes=1)
        assert f'start={shown:%Y-%m-%d+%H%%3A%M}&amp;end=' in self.text(INDEX)

    def test_capacity_is_named_in_the_language_of_the_user(self) -> None:
        names = (('host', 'host'), ('host', 'vcpus'), ('host', 'CUSTOM_FPGA'))
        names = (*names, ('network segment', 'network segment'))
        found = [Capacity(kind, 'default', unit, ()) for kind, unit in names]
        self.calendar.capacity.return_value = found
        self.client.cookies['django_language'] = 'de'
        text = self.text(INDEX)
        for title in ('Hosts', 'Hosts: VCPUs', 'Hosts: CUSTOM_FPGA', 'Netzwerke'):
            assert f'class="climate-label">{title}<small>' in text

    def test_many_steps_are_drawn_as_the_worst_of_each_part(self) -> None:
        minute = datetime.timedelta(minutes=1)
        steps = tuple(Step(NOW + n * minute, 9, n % 9, 0, 9 - n % 9) for n in range(1000))
        window = Window.read({}, NOW)
        found = Capacity('host', 'default', 'host', steps)
        [row] = drawing.capacity_rows([found], window, True, {})
        assert len(row.bars) <= drawing.STEPS
        assert row.bars[1].name == '1/9'

    def test_refused_calendar_says_why(self) -> None:
        self.calendar.bars.side_effect = refused('must be earlier', 'to')
        assert 'must be earlier' in self.text(INDEX)
