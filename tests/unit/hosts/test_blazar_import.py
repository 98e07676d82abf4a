# SPDX-License-Identifier: Apache-2.0
"""climate-manage import blazar --dry-run: the plan, and the command."""

import datetime
import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from climate_core.cmd import manage
from climate_hosts.blazar import plan
from climate_hosts.blazar.plan import Contents, Finding, Present, Severity, make_plan
from tests.support.blazar_tables import HOUR, NOW, Rows
from tests.support.databases import Server
from tests.support.fakes import leases
from tests.support.redfish import until

Run = Callable[..., int]


@pytest.fixture
def rows() -> Rows:
    return Rows()


def make(rows: Rows, connections: int = 0, **present: Any) -> plan.Plan:
    return make_plan(Contents(rows.rows, rows.now, connections), Present(**present))


def stops(made: plan.Plan) -> list[str]:
    return [each.reason for each in made.findings if each.severity is Severity.STOP]


def differences(made: plan.Plan) -> list[str]:
    return [each.reason for each in made.findings if each.severity is Severity.DIFFERENCE]


def test_an_empty_blazar_has_nothing_to_import(rows: Rows) -> None:
    assert make(rows) == plan.Plan([], [], 0, 0, {}, None)


def test_leases_of_all_types_can_be_imported(rows: Rows) -> None:
    first, second = rows.host('cn1', gpu='yes'), rows.host('cn2')
    address = rows.address('203.0.113.5')
    pending, active = rows.lease(), rows.lease('ACTIVE', name='lease2')
    rows.reserve_hosts(pending, first)
    rows.reserve_instances(active, second, second)
    rows.reserve_addresses(active, address)
    made = make(rows)
    assert not made.findings
    assert not made.is_stopped
    assert [(each.name, each.hosts, each.floatingips) for each in made.leases] == [
        ('lease2', ['cn2'], ['203.0.113.5']),
        ('lease1', ['cn1'], []),
    ]
    assert all(each.can_be_imported for each in made.leases)
    assert (made.hosts, made.floatingips) == (2, 1)
    # The ACTIVE lease ends, and the PENDING one starts, in an hour.
    assert made.next_event == NOW + HOUR


def test_ended_leases_stay(rows: Rows) -> None:
    rows.lease('TERMINATED')
    rows.lease('ERROR')
    rows.lease('TERMINATED')
    made = make(rows)
    assert made.history == {'TERMINATED': 2, 'ERROR': 1}
    assert not made.leases
    # Their open events are not Blazar's next ones.
    assert made.next_event is None


@pytest.mark.parametrize(
    ('status', 'values', 'reason'),
    [
        (
            'UPDATING',
            {},
            'The lease is UPDATING: wait until it is PENDING or ACTIVE, or delete it.',
        ),
        ('PENDING', {'project_id': None}, 'The lease has no project or no user.'),
        (
            'PENDING',
            {'start_date': NOW},
            'The lease is PENDING after its start: Blazar has not started it.',
        ),
        (
            'ACTIVE',
            {'end_date': NOW},
            'The lease is ACTIVE after its end: Blazar has not ended it.',
        ),
    ],
)
def test_state_of_a_lease_stops_it(
    rows: Rows, status: str, values: dict[str, Any], reason: str
) -> None:
    lease = rows.lease(status, **values)
    wanted = {'PENDING': 'pending'}.get(status, 'active')
    rows.rows['reservations'] = []
    rows.reserve_hosts(lease, rows.host('cn1'))
    rows.rows['reservations'][0]['status'] = wanted
    made = make(rows)
    assert made.findings == [Finding(Severity.STOP, 'lease', lease['id'], reason)]
    assert made.is_stopped
    assert not made.leases[0].can_be_imported


@pytest.mark.parametrize(
    ('status', 'reason'),
    [
        (
            'IN_PROGRESS',
            'An event of the lease is IN_PROGRESS: wait until Blazar has finished it.',
        ),
        ('ERROR', 'An event of the lease is in ERROR.'),
    ],
)
def test_state_of_an_event_stops_its_lease(rows: Rows, status: str, reason: str) -> None:
    rows.reserve_hosts(rows.lease(), rows.host('cn1'))
    rows.rows['events'][0]['status'] = status
    assert stops(make(rows)) == [reason]


def test_events_of_a_lease_are_compared_with_its_dates(rows: Rows) -> None:
    rows.reserve_hosts(rows.lease(), rows.host('cn1'))
    rows.rows['events'][0]['time'] += HOUR
    del rows.rows['events'][1]
    assert stops(make(rows)) == [
        'The event start_lease is not at the start_date of the lease.',
        'The lease has 0 events end_lease.',
    ]


def test_an_event_of_a_user_is_never_run(rows: Rows) -> None:
    lease = rows.lease()
    rows.reserve_hosts(lease, rows.host('cn1'))
    rows.add('events', id='e', lease_id=lease['id'], event_type='mail', status='UNDONE')
    assert make(rows).next_event == NOW + HOUR


def test_a_lease_without_reservations_stops(rows: Rows) -> None:
    rows.lease()
    assert stops(make(rows)) == ['The lease has no reservations.']


def test_an_unknown_type_stops(rows: Rows) -> None:
    reservation_id = rows.reserve(rows.lease(), 'device')
    assert stops(make(rows)) == [
        f'The type of reservation {reservation_id} is unknown to Climate: device.'
    ]


def test_a_reservation_without_its_row_stops(rows: Rows) -> None:
    reservation_id = rows.reserve(rows.lease(), 'physical:host')
    assert stops(make(rows)) == [
        f'The reservation {reservation_id} has no row in computehost_reservations.'
    ]


def test_the_status_of_a_reservation_is_that_of_its_lease(rows: Rows) -> None:
    reservation_id = rows.reserve_hosts(rows.lease('ACTIVE'), rows.host('cn1'))
    rows.rows['reservations'][0]['status'] = 'error'
    assert stops(make(rows)) == [
        f'The reservation {reservation_id} is error, and its lease ACTIVE.'
    ]


def test_missing_allocations_stop(rows: Rows) -> None:
    host, lease = rows.host('cn1'), rows.lease()
    reserved = rows.reserve_hosts(lease, host, count_range='2-3')
    instances = rows.reserve_instances(
        rows.lease(start_date=NOW + 9 * HOUR, end_date=NOW + 10 * HOUR), host, amount=2
    )
    addresses = rows.reserve_addresses(lease)
    rows.rows['floatingip_reservations'][0]['amount'] = 1
    assert set(stops(make(rows))) == {
        f'The reservation {reserved} has allocations for 1 host of 2.',
        f'The reservation {instances} has allocations for 1 instance of 2.',
        f'The reservation {addresses} has 0 floating IPs of 1.',
    }


def test_an_invalid_count_stops(rows: Rows) -> None:
    reservation_id = rows.reserve_hosts(rows.lease(), rows.host('cn1'), count_range='many')
    assert stops(make(rows)) == [
        f'The count_range of reservation {reservation_id} is invalid: many.'
    ]


def test_allocations_of_unknown_units_stop(rows: Rows) -> None:
    lease = rows.lease()
    hosts = rows.reserve_hosts(lease, 'gone')
    addresses = rows.reserve_addresses(lease, 'gone')
    assert stops(make(rows)) == [
        f'The reservation {hosts} has a host that Blazar does not have.',
        f'The reservation {addresses} has a floating IP that Blazar does not have.',
    ]


def test_a_host_that_is_allocated_twice_stops_both_leases(rows: Rows) -> None:
    host = rows.host('cn1')
    first = rows.lease()
    second = rows.lease(start_date=NOW + 2 * HOUR, end_date=NOW + 4 * HOUR)
    later = rows.lease(start_date=NOW + 4 * HOUR, end_date=NOW + 5 * HOUR)
    for lease in (first, second, later):
        rows.reserve_hosts(lease, host)
    made = make(rows)
    at = f'from {NOW + 2 * HOUR} to {NOW + 3 * HOUR}.'
    assert sorted((each.id, each.reason) for each in made.findings) == sorted(
        [
            (first['id'], f'The host cn1 is allocated to lease {second["id"]}, too, {at}'),
            (second['id'], f'The host cn1 is allocated to lease {first["id"]}, too, {at}'),
        ]
    )
    assert [each.can_be_imported for each in made.leases] == [False, False, True]


def test_a_floating_ip_that_is_allocated_twice_stops_both_leases(rows: Rows) -> None:
    address = rows.address('203.0.113.5')
    for _ in range(2):
        rows.reserve_addresses(rows.lease(), address)
    assert len(stops(make(rows))) == 2


def test_instances_share_a_host_up_to_its_sizes(rows: Rows) -> None:
    host = rows.host('cn1')
    for _ in range(2):
        rows.reserve_instances(rows.lease(), host, host)
    assert not make(rows).findings
    rows.reserve_instances(rows.lease(), host)
    reason = f'The host cn1 has vcpus 8, and 10 are allocated at {NOW + HOUR}.'
    assert stops(make(rows)) == [reason] * 3


def test_a_host_has_no_more_leases_at_a_time_than_lanes(rows: Rows) -> None:
    host = rows.host('cn1')
    for _ in range(2):
        rows.reserve_instances(rows.lease(), host)
    assert not make(rows, lanes=2).findings
    reason = '2 reservations have the host cn1 at the same time, and [hosts] lanes_per_host is 1.'
    assert stops(make(rows, lanes=1)) == [reason] * 2


def test_what_climate_has_already_stops(rows: Rows) -> None:
    lease = rows.lease()
    rows.reserve_hosts(lease, rows.host('cn1'))
    rows.address('203.0.113.5')
    made = make(
        rows,
        lease_ids={lease['id']},
        host_names={'cn1'},
        addresses={('public', '203.0.113.5')},
    )
    assert stops(made) == [
        'The floating IP is registered in Climate already.',
        'The host is in a pool of Climate already.',
        'Climate has a lease with this id.',
    ]


def test_a_lease_of_a_host_that_cannot_be_taken_over_cannot_either(rows: Rows) -> None:
    rows.reserve_hosts(rows.lease(), rows.host('cn1', status='good'))
    made = make(rows)
    assert [(each.about, each.id) for each in made.findings] == [('host', 'cn1')]
    assert 'status' in made.findings[0].reason
    assert not made.leases[0].can_be_imported


def test_two_hosts_with_a_name_stop(rows: Rows) -> None:
    rows.host('cn1')
    rows.host('cn1')
    assert stops(make(rows)) == ['Several hosts have this hypervisor_hostname.']


def test_ipv6_stops(rows: Rows) -> None:
    rows.address('2001:db8::1')
    assert stops(make(rows)) == ['Climate has only floating IPs of IPv4.']


def test_what_differs_does_not_stop(rows: Rows) -> None:
    lease = rows.lease()
    first, second = rows.address('203.0.113.5'), rows.address('203.0.113.6')
    hosts = rows.reserve_hosts(
        lease,
        rows.host('cn1'),
        hypervisor_properties='["in", "$vcpus", "8"]',
        before_end='snapshot',
    )
    addresses = rows.reserve_addresses(lease, first, second, required=('203.0.113.5',))
    rows.rows['reservations'][0]['missing_resources'] = True
    made = make(rows)
    assert not made.is_stopped
    found = differences(made)
    assert f'The reservation {hosts} has missing resources in Blazar already.' in found
    assert (
        f'The reservation {hosts} has before_end snapshot, which has no effect in Climate.'
        in found
    )
    assert any(
        each.startswith(f'Climate rejects the conditions of reservation {hosts}') for each in found
    )
    assert any(each.startswith(f'The reservation {addresses} requires 1 of 2') for each in found)
    assert len(found) == 4


def test_the_flavor_of_a_reservation_is_no_condition(rows: Rows) -> None:
    lease, host = rows.lease(), rows.host('cn1')
    rows.reserve_instances(lease, host, resource_properties='{"id": "1", "vcpus": 1}')
    rows.rows['reservations'][0]['resource_type'] = 'flavor:instance'
    assert not make(rows).findings


def test_running_services_are_noted(rows: Rows) -> None:
    made = make(rows, connections=2)
    assert made.findings == [
        Finding(
            Severity.NOTE,
            'Blazar',
            'services',
            'The database has 2 other connections: services of Blazar are running.',
        )
    ]
    assert not made.is_stopped


def test_trusts_are_counted_in_one_note(rows: Rows) -> None:
    host = rows.host('cn1')
    for _ in range(2):
        rows.reserve_instances(rows.lease(trust_id='trust'), host)
    (found,) = make(rows).findings
    assert (found.severity, found.id) == (Severity.NOTE, 'trusts')
    assert found.reason.startswith('2 leases with a trust')


@pytest.fixture
def run(tmp_path: pathlib.Path) -> Run:
    """Run the command with the configuration of a Blazar."""
    leases.sqlite(tmp_path / 'climate.sqlite').dispose()
    file, blazar = tmp_path / 'climate.conf', tmp_path / 'blazar.conf'
    file.write_text(f'[database]\nconnection = sqlite:///{tmp_path}/climate.sqlite\n')

    def call(url: str, *words: str) -> int:
        blazar.write_text(f'[database]\nconnection = {url}\n' if url else '')
        command = ['import', 'blazar', '--dry-run', '--blazar-config', str(blazar)]
        return manage.main(['--config-file', str(file), *command, *words])

    return call


@pytest.fixture
def filled() -> Rows:
    """Return a Blazar with a PENDING lease of a host, from the present time on."""
    made = Rows(datetime.datetime.now(datetime.UTC).replace(tzinfo=None, microsecond=0))
    made.reserve_hosts(made.lease(), made.host('cn1'))
    return made


def count_connections(server: Server, url: str) -> int:
    """Return the number of connections to a database, which end after their clients."""
    engine = sa.create_engine(server.url.format(server.home))
    query = sa.text('SELECT COUNT(*) FROM information_schema.processlist WHERE db = :name')
    with engine.connect() as conn:
        found = conn.execute(query, {'name': sa.make_url(url).database}).scalar_one()
    engine.dispose()
    return int(found)


def test_command_on_mariadb(
    run: Run,
    filled: Rows,
    mariadb: Server,
    new_database: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = new_database('mariadb')
    filled.write(url)
    until(lambda: count_connections(mariadb, url) == 0)
    assert run(url) == 0
    output = capsys.readouterr().out
    assert '1 of 1 lease can be taken over, with 1 host and 0 floating IPs.' in output
    assert 'services of Blazar' not in output
    until(lambda: count_connections(mariadb, url) == 0)
    engine = sa.create_engine(url)
    with engine.connect():
        assert run(url, '-f', 'json') == 0
    engine.dispose()
    made = json.loads(capsys.readouterr().out)
    assert [each['hosts'] for each in made['leases']] == [['cn1']]
    assert [each['reason'] for each in made['findings']] == [
        'The database has 1 other connection: services of Blazar are running.'
    ]


def test_command_reports_what_stops(
    run: Run,
    filled: Rows,
    new_database: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    filled.address('2001:db8::1')
    url = new_database('mariadb')
    filled.write(url)
    assert run(url) == 1
    assert 'Climate has only floating IPs of IPv4.' in capsys.readouterr().out


def _change_schema(url: str, statement: str) -> None:
    engine = sa.create_engine(url)
    with engine.begin() as conn:
        conn.execute(sa.text(statement))
    engine.dispose()


@pytest.mark.parametrize(
    ('statement', 'reason'),
    [
        ('DROP TABLE floatingips', 'The database of Blazar has no table floatingips.'),
        (
            'ALTER TABLE computehosts DROP COLUMN reservable',
            'The table computehosts has no column reservable: Blazar 13 to 18 are supported.',
        ),
        ('ALTER TABLE leases ADD COLUMN deleted VARCHAR(36)', 'is that of a fork of Blazar'),
    ],
)
def test_command_rejects_another_schema(
    run: Run,
    filled: Rows,
    new_database: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
    statement: str,
    reason: str,
) -> None:
    url = new_database('mariadb')
    filled.write(url)
    _change_schema(url, statement)
    assert run(url) == 2
    assert reason in capsys.readouterr().err


def test_command_reports_a_database_that_it_cannot_read(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run('mysql+pymysql://blazar:secret@127.0.0.1:1/blazar') == 2
    error = capsys.readouterr().err
    assert 'climate-manage: The database of Blazar cannot be read: ' in error
    assert 'secret' not in error


def test_command_rejects_another_kind_of_database(
    run: Run, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f'sqlite:///{tmp_path}/blazar.sqlite') == 2
    assert 'The database of Blazar must be MariaDB or MySQL.' in capsys.readouterr().err


def test_command_needs_the_connection_of_blazar(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run('') == 2
    assert '[database] connection is not set in' in capsys.readouterr().err
