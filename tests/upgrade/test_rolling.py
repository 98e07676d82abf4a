# SPDX-License-Identifier: Apache-2.0
"""The release before this one and this one work on one database, as during a rolling upgrade."""

import json
import pathlib
import queue
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from climate_core import conf as configuration
from climate_core.cmd import status
from climate_core.db import leases, migration, sql, tables
from climate_core.db.engine import Database
from climate_core.lease import model, views
from tests.upgrade import releases

_CONFIG = """\
[DEFAULT]
transport_url = fake:/
[database]
connection = {url}
[engine]
idle_seconds = 1
grace_seconds = 60
[manager]
minutes_before_end_lease = 0
"""


class Both:
    """An old and a new manager on a database that is expanded while the old one runs."""

    def __init__(self, directory: pathlib.Path, url: str) -> None:
        self.config = directory / 'climate.conf'
        self.config.write_text(_CONFIG.format(url=url.replace('$', '$$')))
        self.conf: cfg.ConfigOpts = configuration.load([], [str(self.config)])
        self.database = Database(self.conf)
        self.old_code = releases.unpack(directory / 'old')
        self._processes: list[releases.Process] = []
        self._heard: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.old = self._start('old', self.old_code)
        assert self.old.ask('upgrade') == '0001'
        self.old.ask('open')
        migration.expand(self.conf)
        self.new = self._start('new', releases.ROOT)
        self.new.ask('open')

    def _start(self, name: str, code: pathlib.Path) -> releases.Process:
        log = self.config.parent / f'{name}.log'
        self._processes.append(releases.Process(code, self.config, log, self._heard))
        return self._processes[-1]

    def close(self) -> None:
        for process in self._processes:
            process.kill()
        self.database.dispose()

    def lease(self, lease_id: str) -> model.Lease:
        found = self.database.read(leases.find, lease_id)
        assert found is not None
        return found

    def until(self, happened: Callable[[], bool]) -> None:
        """Wait for something that comes of the work of either."""
        while not happened():
            self._heard.get(timeout=releases.PATIENCE)

    def due_now(self, event_type: str, lease_id: str) -> None:
        """Let the time of an event come."""
        column = tables.EVENTS.c
        with self.database.writer() as session:
            session.execute(
                sa.update(tables.EVENTS)
                .where(column.lease_id == lease_id, column.event_type == event_type)
                .values(next_at=sql.now(session))
            )

    def statuses(self) -> set[str]:
        """Return the statuses that leases have."""
        with self.database.reader() as session:
            return set(session.scalars(sa.select(tables.LEASES.c.status).distinct()))

    def over(self) -> bool:
        """Tell whether every lease has ended and nothing is left to do."""
        with self.database.reader() as session:
            left = sa.select(sa.func.count()).where(tables.EVENTS.c.next_at.is_not(None))
            if session.scalar(left):
                return False
        return self.statuses() == {'TERMINATED'}


@pytest.fixture(params=['sqlite', 'mariadb'])
def both(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path, new_database: Callable[[str], str]
) -> Iterator[Both]:
    made = Both(tmp_path, new_database(request.param))
    yield made
    made.close()


def wanted(**values: Any) -> dict[str, Any]:
    """Return a lease of one thing that starts now."""
    thing = {'resource_type': 'test:thing', 'resource_id': str(uuid.uuid4())}
    return {'name': 'n', 'end_date': '2099-01-01 10:00', 'reservations': [thing], **values}


def worked(process: releases.Process, lease_id: str) -> list[str]:
    return [what for what, lease in process.done if lease == lease_id]


def test_the_processes_have_the_code_that_they_should(both: Both) -> None:
    assert pathlib.Path(both.old.code).is_relative_to(both.old_code)
    assert pathlib.Path(both.new.code).is_relative_to(releases.ROOT)
    assert migration.version(both.conf) == migration.expanded() != '0001'


@pytest.mark.parametrize(('maker', 'other'), [('old', 'new'), ('new', 'old')])
def test_what_one_makes_the_other_starts_and_ends(both: Both, maker: str, other: str) -> None:
    lease_id = getattr(both, maker).ask('create', wanted())
    process = getattr(both, other)
    process.ask('run')
    process.until_finished('start_lease', lease_id)
    both.due_now('end_lease', lease_id)
    process.until(both.over)
    assert process.ask('pause')
    assert worked(process, lease_id) == ['wake', 'end']
    assert both.lease(lease_id).trust_id is None


@pytest.mark.parametrize(('starter', 'ender'), [('old', 'new'), ('new', 'old')])
def test_what_one_starts_the_other_ends(both: Both, starter: str, ender: str) -> None:
    first, second = getattr(both, starter), getattr(both, ender)
    lease_id = second.ask('create', wanted())
    first.ask('run')
    first.until_finished('start_lease', lease_id)
    assert first.ask('pause')
    assert both.lease(lease_id).status == 'ACTIVE'
    both.due_now('end_lease', lease_id)
    second.ask('run')
    second.until(both.over)
    assert (worked(first, lease_id), worked(second, lease_id)) == (['wake'], ['end'])


def test_both_at_the_same_time_do_each_thing_once(both: Both) -> None:
    made = [each.ask('create', wanted()) for _ in range(10) for each in (both.old, both.new)]
    both.old.ask('run')
    both.new.ask('run')
    both.until(lambda: both.statuses() == {'ACTIVE'})
    for lease_id in made:
        both.due_now('end_lease', lease_id)
    both.until(both.over)
    done = both.old.done + both.new.done
    assert sorted(done) == sorted((what, lease) for lease in made for what in ('end', 'wake'))


def test_the_old_release_ends_what_it_does_not_know(both: Both) -> None:
    """A lease that waits for its user is never woken, and a heads-up is told as any event."""
    manual = both.new.ask('create', wanted(start_policy='manual'))
    later = both.new.ask('create', wanted(start_date='2098-01-01 10:00', before_start=[60]))
    both.old.ask('run')
    both.old.until_finished('ready_to_start', manual)
    for event_type in ('before_start_lease', 'start_lease', 'end_lease'):
        both.due_now(event_type, later)
        both.old.until_finished(event_type, later)
    both.due_now('end_lease', manual)
    both.old.until(both.over)
    assert worked(both.old, manual) == ['end']
    assert worked(both.old, later) == ['wake', 'end']


def test_only_an_api_of_its_release_is_answered_with_the_lease(both: Both) -> None:
    assert isinstance(both.old.ask('create', wanted(api_release=views.RELEASE)), str)
    assert isinstance(both.new.ask('create', wanted(api_release='0.1.0')), str)
    made = both.new.ask('create', wanted(api_release=views.RELEASE))
    assert made == json.loads(json.dumps(views.lease_view(both.lease(made['id']))))


def test_leases_share_a_trust_only_when_the_old_release_is_gone(both: Both) -> None:
    """It deletes the trust of a lease that is over, whoever shares it."""
    early = [both.new.ask('create', wanted(), True) for _ in range(2)]
    assert len({both.lease(each).trust_id for each in early}) == 2
    migration.contract(both.conf)
    late = [both.new.ask('create', wanted(), True) for _ in range(2)]
    assert len({both.lease(each).trust_id for each in late}) == 1
    # Those from before go on with their own.
    both.new.ask('run')
    for lease_id in early + late:
        both.new.until_finished('start_lease', lease_id)
        both.due_now('end_lease', lease_id)
    both.new.until(both.over)
    assert {both.lease(each).trust_id for each in early + late} == {None}


def test_after_the_upgrade_the_check_asks_for_the_contract(
    both: Both, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ['--config-file', str(both.config), 'upgrade', 'check']
    status.main(words)
    assert 'db contract' in ' '.join(capsys.readouterr().out.replace('|', ' ').split())
    migration.contract(both.conf)
    status.main(words)
    assert 'contract' not in capsys.readouterr().out
