# SPDX-License-Identifier: Apache-2.0
"""What the bench counts, and how it shows it."""

import os
import sys
import uuid

import pytest

from tests.bench import cloud, costs, processes, report
from tests.bench.blazar_cloud import Aggregates
from tests.bench.meter import Probe, Reading
from tests.bench.workload import Result


class Database:
    """A connection that answers every statement with the same rows."""

    def __init__(self):
        self.rows = ()

    def cursor(self):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def execute(self, statement, arguments):
        pass

    def fetchall(self):
        return self.rows


def status(questions, selects):
    verbs = ('insert', 'insert_select', 'update', 'delete', 'replace')
    return [
        ('Questions', str(questions)),
        ('Com_select', str(selects)),
        *((f'Com_{verb}', '0') for verb in verbs),
    ]


def test_the_statements_of_the_bench_itself_do_not_count():
    database = Database()
    probe = Probe(database)
    database.rows = status(questions=100, selects=40)
    before = probe.counters()
    probe.rows('SELECT 1')
    # Seven of the others, two of them SELECTs; our SELECT and the SHOW that reads this.
    database.rows = status(questions=109, selects=43)
    after = probe.counters()
    assert [now - then for now, then in zip(after, before, strict=True)] == [7, 2]


def test_the_kinds_of_statements_leave_out_those_of_the_bench_itself():
    database = Database()
    probe = Probe(database)
    probe.rows('SELECT 1')
    more = [(f'Com_{name}', '0') for name in ('begin', 'rollback', 'set_option')]
    off = ('Compression', 'OFF')
    database.rows = [*status(questions=9, selects=4), *more, ('Com_commit', '2'), off]
    found = probe.kinds()
    assert {name: count for name, count in found.items() if count} == {'select': 3, 'commit': 2}


class Readings:
    """Stands for the meter, and for what counts kinds: what it says, one after the other."""

    def __init__(self, *told):
        self._told = iter(told)

    def read(self):
        return next(self._told)

    kinds = read


def test_costs_of_an_operation_are_told_by_kind():
    meter = Readings(Reading(0, 0, 0, 0, 0), Reading(40, 0, 20, 10, 5))
    statements = Readings({'select': 5, 'insert': 0}, {'select': 25, 'insert': 19, 'commit': 1})
    calls = Readings({}, {'GET network ports': 20})
    told = costs.Costs(meter, statements, calls.read).of('end', 20, lambda: [3.0, 1.0, 2.0])
    assert told == (
        'end: 2.0 SQL (1.0 select, 0.9 insert), 1.0 HTTP (1.0 GET network ports), '
        'CPU 0.5 and database 0.2 ms, p50 2.0, p99 3.0 ms'
    )


def test_a_difference_is_per_operation():
    before, after = Reading(10, 5, 1, 100.0, 0.0), Reading(30, 9, 2, 140.0, 8.0)
    assert after.since(before, 2) == Reading(10, 2, 0.5, 20.0, 4.0)


def test_the_ratio_is_the_peer_divided_by_ours():
    ours = Result(Reading(10, 5, 0, 20.0, 1.0), p50_ms=10.0)
    peer = Result(Reading(100, 50, 3, 30.0, 1.0), p50_ms=25.0)
    lines = report.table({'show': {'Climate': ours, 'Blazar': peer}}).splitlines()
    ratio = next(line for line in lines if ' ratio ' in line)
    assert ratio.split() == [
        'show',
        'ratio',
        '10.0x',
        '10.0x',
        '–',
        '1.5x',
        '1.0x',
        '2.5x',
    ]


def test_lateness_is_the_median_and_the_last():
    result = Result(Reading(1, 1, 1, 1, 1), late=(0.1, 0.2, 0.9), active=2.0)
    row = report.table({'3 due': {'Climate': result}}).splitlines()[3]
    assert row.split()[-3:] == ['0.20', '0.90', '2.00']


def test_report_has_the_notes_of_results():
    result = Result(Reading(0, 0, 0, 0, 0), note='48 of 50')
    assert report.notes({'50 due': {'Climate': result}}) == ['50 due, Climate: 48 of 50']


def test_the_cloud_counts_calls_and_notes_the_first_wake_up():
    woken = []
    counted = cloud.Counted(woken.append)
    wake_up = '/compute/v2.1/servers/s1/action'
    counted.append(('POST', wake_up, 202))
    first = counted.started['s1']
    counted.append(('POST', wake_up, 202))
    counted.append(('POST', '/compute/v2.1/servers/s2/action', 409))
    assert counted.calls == 3
    assert counted.started == {'s1': first}
    assert counted.again == ['s1']
    assert counted.refused == ['409 POST /compute/v2.1/servers/s2/action']
    assert woken == ['s1', 's1']


def test_the_cloud_counts_calls_by_their_methods_and_the_names_in_their_paths():
    counted = cloud.Counted()
    for _ in range(2):
        path = f'/network/v2.0/floatingips/{uuid.uuid4()}/port_forwardings/{uuid.uuid4()}'
        counted.append(('DELETE', path, 204))
    counted.append(('DELETE', f'/identity/v3/OS-TRUST/trusts/{uuid.uuid4().hex}', 204))
    assert counted.kinds == {
        'DELETE network floatingips port_forwardings': 2,
        'DELETE identity OS-TRUST trusts': 1,
    }


class Request:
    def __init__(self, body=None):
        self.body = body


def test_a_host_starts_the_reservation_of_its_aggregate_and_not_the_freepool():
    aggregates = Aggregates()
    (number,) = aggregates.add(Request(['a']))
    freepool = aggregates.index(Request())['aggregates'][0]['id']
    for each in (freepool, number):
        aggregates.change(Request({'add_host': {'host': 'cn1'}}), str(each))
    assert list(aggregates.started) == [number]
    assert aggregates.show(Request(), str(number))['aggregate']['hosts'] == ['cn1']


def test_the_cpu_of_a_group_grows_with_its_work():
    before = processes.group_cpu_ms(os.getpgrp())
    # A round is about a millisecond of CPU; a hundred times as many as it takes.
    for _ in range(2_000):
        sum(range(100_000))
        if processes.group_cpu_ms(os.getpgrp()) - before >= 20:
            return
    pytest.fail('The work was not seen in the CPU time of the group.')


def test_a_program_that_ends_early_is_an_error_with_its_last_words(tmp_path):
    with processes.Processes(tmp_path) as running:
        program = running.start('short', [sys.executable, '-c', 'raise SystemExit("no luck")'])
        with pytest.raises(processes.Failed, match=r'(?s)short: .*no luck'):
            program.wait_for(lambda: False)


def test_children_end_with_their_parent(tmp_path):
    code = 'import subprocess, time; subprocess.Popen(["sleep", "600"]); time.sleep(600)'
    with processes.Processes(tmp_path) as running:
        program = running.start('parent', [sys.executable, '-c', code])
        processes.wait_until('two', lambda: group_size(program.group) == 2, 30)
    processes.wait_until('none', lambda: group_size(program.group) == 0, 30)


def group_size(group):
    """Count the processes of a group that are not zombies."""
    count = 0
    for name in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{name}/stat', encoding='utf-8') as stat:
                state, _, found = stat.read().rpartition(')')[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        count += int(found) == group and state != 'Z'
    return count
