# SPDX-License-Identifier: Apache-2.0
"""``openstack lease usage|limits|plugins``, and the calls of the client behind them."""

import json

import pytest

from tests.unit.climateclient.samples import ENDPOINT

PROJECT_ID = 32 * 'a'


def test_usage_shows_hours_reserved_and_used(run, http):
    row = {
        'project_id': PROJECT_ID,
        'start': '2082-11-01T00:00:00.000000',
        'end': '2082-12-01T00:00:00.000000',
        'leases': 2,
        'reserved': {'server_hours': 4.5, 'vcpu_hours': 9.0},
        'used': {'server_hours': 1.25},
    }
    http.get(f'{ENDPOINT}/usage', json={'usage': [row]})

    out = run(
        *('lease', 'usage', '--start', '2082-11-01T00:00Z', '--end', '2082-12-01 01:00'),
        *('--project', PROJECT_ID, '-f', 'json'),
    )
    (shown,) = json.loads(out)
    assert (shown['Project'], shown['Leases']) == (PROJECT_ID, 2)
    assert (shown['Start'], shown['End']) == (
        '2082-11-01T00:00:00+00:00',
        '2082-12-01T00:00:00+00:00',
    )
    assert (shown['Servers reserved'], shown['Servers used']) == (4.5, 1.25)
    assert (shown['VCPUs reserved'], shown['Disk GiB used']) == (9.0, None)
    assert http.last_request.qs == {
        'start': ['2082-11-01t00:00:00+00:00'],
        'end': ['2082-12-01t00:00:00+00:00'],
        'project_id': [PROJECT_ID],
    }


def weekly(**more):
    return {
        'project_id': PROJECT_ID,
        'start': '2082-11-30T00:00:00.000000',
        'end': '2082-12-07T00:00:00.000000',
        'leases': 1,
        'reserved': {'server_hours': 4.5, 'vcpu_hours': 0},
        'used': {},
        **more,
    }


def test_table_of_usage_has_a_row_for_each_amount(run, http):
    http.get(f'{ENDPOINT}/usage', json={'usage': [weekly(used={'host_hours': 1 / 3})]})
    lines = run('lease', 'usage').splitlines()
    cells = [[each.strip() for each in line.split('|')[1:-1]] for line in lines if '|' in line]
    assert cells[0][:5] == ['Project', 'Start', 'End', 'Leases', 'Hours Of']
    assert cells[0][5:] == ['Reserved', 'Used', 'Preempted']
    assert [row[4:] for row in cells[1:]] == [
        ['Servers', '4.50', '0.00', '0.00'],
        ['Hosts', '0.00', '0.33', '0.00'],
    ]
    assert max(map(len, lines)) < 160


def test_planned_usage_is_a_column_more(run, http):
    http.get(f'{ENDPOINT}/usage', json={'usage': [weekly(planned={'server_hours': 9})]})
    table = run('lease', 'usage', '--planned')
    assert '| Servers  | 4.50     | 0.00 | 0.00      | 9.00    |' in table
    assert http.last_request.qs == {'planned': ['true']}
    (row,) = json.loads(run('lease', 'usage', '--planned', '-f', 'json'))
    assert (row['Servers planned'], row['VCPUs reserved']) == (9, 0)


def test_time_that_was_lost_is_a_column(run, http):
    http.get(f'{ENDPOINT}/usage', json={'usage': [weekly(preempted={'server_hours': 2.5})]})
    assert '| Servers  | 4.50     | 0.00 | 2.50      |' in run('lease', 'usage')
    (row,) = json.loads(run('lease', 'usage', '-f', 'json'))
    assert (row['Servers preempted'], row['VCPUs preempted']) == (2.5, None)


def test_usage_of_nothing_is_said(openstack, http):
    http.get(f'{ENDPOINT}/usage', json={'usage': [weekly(reserved={})]})
    status, _, err = openstack('lease', 'usage')
    assert (status, err) == (0, 'Nothing was reserved in this period.\n')


def test_usage_without_dates_sends_none(run, http):
    http.get(f'{ENDPOINT}/usage', json={'usage': []})
    run('lease', 'usage')
    assert http.last_request.qs == {}


@pytest.mark.parametrize(
    ('argv', 'asked'),
    [([], {}), (['--project', PROJECT_ID], {'project_id': [PROJECT_ID]})],
)
def test_limits_show_what_is_used(run, http, argv, asked):
    limits = {'leases': {'limit': 10, 'used': 3}, 'reserved_servers': {'limit': -1}}
    http.get(f'{ENDPOINT}/limits', json={'limits': limits})
    out = run('lease', 'limits', '-f', 'value', *argv)
    assert out.splitlines() == ['leases 10 3', 'reserved_servers -1 None']
    assert http.last_request.qs == asked


def test_plugins_are_listed_with_their_titles(openstack, http):
    row = {'resource_type': 'virtual:instance', 'title': 'Server', 'description': 'It waits.'}
    http.get(f'{ENDPOINT}/plugins', json={'plugins': [row]})
    status, out, err = openstack('lease', 'plugins', '-f', 'value')
    assert (status, err) == (0, '')
    assert out == 'virtual:instance Server It waits.\n'
