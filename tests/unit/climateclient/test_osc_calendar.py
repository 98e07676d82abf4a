# SPDX-License-Identifier: Apache-2.0
"""``openstack lease calendar`` and ``client.calendar``."""

import datetime
import io
import json
import re

import pytest

from climateclient import calendar
from climateclient.osc import calendar_output as output
from tests.unit.climateclient.samples import ENDPOINT, LEASE_ID

CALENDAR = f'{ENDPOINT}/calendar'
RESERVATION_ID = 'aaaaaaaa-0000-4000-8000-00000000000a'
#: Noon in Berlin.
SINCE = datetime.datetime(2082, 12, 1, 11, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)
WEEK = output.Span(SINCE, SINCE + 7 * DAY)


def promised(start, end, **more):
    return {
        'lease_id': LEASE_ID,
        'lease_name': 'lease1',
        'project_id': 'project1',
        'status': 'PENDING',
        'reservation_id': RESERVATION_ID,
        'start_date': f'{start:%Y-%m-%dT%H:%M:%S}.000000',
        'end_date': f'{end:%Y-%m-%dT%H:%M:%S}.000000',
        **more,
    }


def of_lease(start, end):
    kind = {'kind': 'scheduled', 'resource_type': 'physical:host'}
    return promised(start, end, **kind, resource_id='0123456789')


def later(days):
    return datetime.datetime.now(datetime.UTC) + days * DAY


@pytest.fixture
def bars(http):
    body = {'bars': [of_lease(later(-1), later(3.5)), of_lease(later(6.9), later(9))]}
    http.get(CALENDAR, json=body)


def drawn(*spans, width=28):
    made = [calendar.Bar.from_dict(of_lease(SINCE + a * DAY, SINCE + b * DAY)) for a, b in spans]
    return output.bar(made, WEEK, width)


@pytest.mark.parametrize(
    ('spans', 'text'),
    [
        ([], 28 * '.'),
        ([(0, 7)], 28 * '#'),
        ([(-3, 1)], 4 * '#' + 24 * '.'),
        ([(6, 9)], 24 * '.' + 4 * '#'),
        ([(1, 2), (3, 4)], 4 * '.' + 4 * '#' + 4 * '.' + 4 * '#' + 12 * '.'),
        ([(2, 2.01)], 8 * '.' + '#' + 19 * '.'),
        ([(6.999, 7)], 27 * '.' + '#'),
    ],
)
def test_bar_covers_its_time(spans, text):
    assert drawn(*spans) == text


def test_days_begin_at_local_midnight(berlin):
    text = output.ruler(WEEK, 70)
    assert text == '     |12-02    |12-03    |12-04    |12-05    |12-06    |12-07    |12-08    '
    assert WEEK.zone == 'CET'
    assert output.ruler(output.Span(SINCE, SINCE + 92 * DAY), 28).count('|') == 4


def test_both_names_of_a_zone_are_told_when_clocks_change(berlin):
    march = datetime.datetime(2083, 3, 26, 12, tzinfo=datetime.UTC)
    assert output.Span(march, march + 7 * DAY).zone == 'CET/CEST'


def test_table_shows_bars_and_the_zone(run, http, bars, monkeypatch):
    monkeypatch.setenv('COLUMNS', '120')
    lines = run('lease', 'calendar').splitlines()
    assert max(map(len, lines)) == 120
    assert [each.strip() for each in lines[1].split('|')[1:5]] == [*output.LEASES]
    assert lines[3].split('|')[3].strip() in ('CET', 'CEST', 'CET/CEST', 'CEST/CET')
    first, second = (each.split('|')[4].strip() for each in lines[4:6])
    assert 'physical:host 01234567 | lease1 | PENDING' in lines[4]
    assert len(first) == len(second)
    assert first == first.count('#') * '#' + first.count('.') * '.'
    assert abs(first.count('#') - len(first) // 2) <= 1
    assert second.startswith('.')
    assert second.endswith('#')
    (asked,) = (each.qs for each in http.request_history if each.url.startswith(CALENDAR))
    since, until = (datetime.datetime.fromisoformat(asked[name][0]) for name in ('from', 'to'))
    assert until - since == 7 * DAY
    assert asked['capacity'] == ['false']


MARCH = datetime.datetime(2083, 3, 24, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize('columns', ['20', '80', '300'])
@pytest.mark.parametrize(
    ('since', 'days', 'last'),
    [(SINCE, 1, '12-02'), (SINCE, 7, '12-08'), (MARCH, 7, '03-31'), (SINCE, 92, '03-03')],
)
def test_all_days_are_shown_where_no_terminal_limits_them(
    berlin, monkeypatch, columns, since, days, last
):
    monkeypatch.setenv('COLUMNS', columns)
    bar = calendar.Bar.from_dict(of_lease(since, since + days * DAY))
    span = output.Span(since, since + days * DAY)
    (*_, ruler), (*_, drawn) = output.leases([bar], span, on_terminal=False)
    assert len(re.findall(r'\|\d\d-\d\d', ruler)) == days
    # Each day stands over its time.
    assert drawn[ruler.index(f'|{last}')] == '#'


@pytest.mark.parametrize(
    ('names', 'told'),
    [
        ([], 'network 01234567 '),
        (['VLAN 1201 of physnet1'], 'network VLAN 1201 of physnet1 '),
        (['203.0.113.20', '203.0.113.21', '203.0.113.22'], 'network 203.0.113.20 and 2 more '),
    ],
)
def test_addresses_and_segments_are_shown_by_their_names(run, http, names, told):
    bar = {**of_lease(later(0), later(1)), 'resource_type': 'network', 'resource_names': names}
    http.get(CALENDAR, json={'bars': [bar]})
    assert f'| {told}|' in run('lease', 'calendar')
    (row,) = json.loads(run('lease', 'calendar', '-f', 'json'))
    assert (row['Resource Names'], row['Resource ID']) == (names, '0123456789')


@pytest.mark.parametrize('status', ['WAITING', 'IN_PROGRESS'])
def test_what_is_not_granted_has_a_sign_of_its_own_with_a_legend(openstack, http, status):
    bar = {**of_lease(later(-1), later(9)), 'status': status}
    http.get(CALENDAR, json={'bars': [bar]})
    done, out, err = openstack('lease', 'calendar')
    assert (done, err) == (0, '~ is asked for and not granted yet.\n')
    assert f'| {status} | ~~~~' in out
    assert '#' not in out
    _, out, err = openstack('lease', 'calendar', '-f', 'json')
    assert (json.loads(out)[0]['Status'], err) == (status, '')


def test_legend_on_a_terminal_has_what_is_drawn_there():
    waits = calendar.Bar.from_dict({**of_lease(SINCE, SINCE + DAY), 'status': 'WAITING'})
    drawn = io.StringIO()
    output.draw(output.LEASES, output.leases([waits], WEEK, on_terminal=True), drawn)
    sign = output.legend([waits], on_terminal=True)[0]
    assert f'{sign}{sign}' in drawn.getvalue()
    granted = calendar.Bar.from_dict(of_lease(SINCE, SINCE + DAY))
    assert output.legend([granted], on_terminal=True) is None


def test_other_formats_show_times_in_utc(run, bars):
    rows = json.loads(run('lease', 'calendar', '--days', '30', '-f', 'json'))
    assert [*rows[0]] == [*output.LEASES_LONG]
    assert rows[0]['Resource ID'] == '0123456789'
    assert rows[0]['Start'].endswith('+00:00')


def test_hosts_are_rows(run, http):
    host = {'id': '1', 'hypervisor_hostname': 'cn1', 'pool': 'gpu', 'reservable': True}
    body = {'hosts': [{**host, 'bars': [promised(later(-1), later(1))]}]}
    http.get(CALENDAR, json=body)
    (row,) = json.loads(run('lease', 'calendar', '--hosts', '-f', 'json'))
    assert (row['Host'], row['Bars'][0]['lease_name']) == ('cn1', 'lease1')
    assert http.last_request.qs['hosts'] == ['true']
    assert '| 1  | cn1  | gpu  | ####' in run('lease', 'calendar', '--hosts')


def test_nothing_promised_is_said(openstack, http):
    http.get(CALENDAR, json={'bars': []})
    status, out, err = openstack('lease', 'calendar', '-f', 'json')
    assert (status, json.loads(out)) == (0, [])
    assert err == 'Nothing is reserved in these 7 days.\n'


@pytest.mark.parametrize('days', ['0', '93', 'x'])
def test_number_of_days_is_bounded(fail, days):
    assert 'number from 1 to 92' in fail('lease', 'calendar', '--days', days)


def test_capacity_is_read(client, http):
    step = {'time': '2082-12-01T11:00:00.000000', 'total': 2, 'promised': 1, 'own': 1, 'free': 1}
    series = {'kind': 'host', 'pool': 'default', 'unit': 'host', 'steps': [step]}
    http.get(CALENDAR, json={'bars': [], 'capacity': [series]})
    (found,) = client.calendar.capacity(since=SINCE)
    assert found.steps == (calendar.Step(SINCE, 2, 1, 1, 1),)


def test_pages_are_followed(client, http):
    link = {
        'rel': 'next',
        'href': f'https://other.example.org/v1/calendar?marker={RESERVATION_ID}',
    }
    bars = [of_lease(SINCE, SINCE + DAY)]
    http.get(CALENDAR, json={'bars': bars, 'bars_links': [link]})
    http.get(f'{CALENDAR}?marker={RESERVATION_ID}', json={'bars': bars})
    assert len([*client.calendar.bars()]) == 2


class Terminal(io.StringIO):
    """A terminal that keeps what is written."""

    def isatty(self):
        return True


def test_terminal_draws_bars(monkeypatch, berlin):
    monkeypatch.setenv('COLUMNS', '120')
    made = [calendar.Bar.from_dict(of_lease(SINCE, SINCE + DAY))]
    stream = Terminal()
    output.draw(output.LEASES, output.leases(made, WEEK, on_terminal=True), stream)
    lines = [re.sub('\x1b\\[[0-9;]*m', '', line) for line in stream.getvalue().splitlines()]
    assert max(map(len, lines)) <= 120
    assert any(line.split()[:1] == ['CET'] and '|12-02' in line for line in lines)
    (drawn_,) = (line for line in lines if '\u2588' in line)
    bar = drawn_.split()[-1]
    assert bar == bar.count('\u2588') * '\u2588' + bar.count('\u00b7') * '\u00b7'
    assert abs(bar.count('\u2588') - len(bar) / 7) <= 1
    assert 'lease1' in drawn_
    assert '\x1b[' in stream.getvalue()


@pytest.mark.parametrize(
    ('name', 'shown'), [('[red]x', '[red]x'), ('a\x9bb', r'a\x9bb')], ids=['colour', 'control']
)
def test_terminal_shows_names_as_text(monkeypatch, name, shown):
    monkeypatch.setenv('COLUMNS', '120')
    bar = calendar.Bar.from_dict({**of_lease(SINCE, SINCE + DAY), 'lease_name': name})
    stream = Terminal()
    output.draw(output.LEASES, output.leases([bar], WEEK, on_terminal=True), stream)
    assert shown in stream.getvalue()
    assert '\x9b' not in stream.getvalue()
