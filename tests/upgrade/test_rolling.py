# SPDX-License-Identifier: Apache-2.0
"""The previous release and this one work on one database, as during a rolling upgrade."""

import pathlib
import queue
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from climate_core import conf as configuration
from climate_core.db import leases, migration, sql, tables
from climate_core.db.engine import Database
from climate_core.lease import model
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

    def __init__(self, directory: pathlib.Path, url: str, old_code: pathlib.Path) -> None:
        self.config = directory / 'climate.conf'
        self.config.write_text(_CONFIG.format(url=url.replace('$', '$$')))
        self.conf: cfg.ConfigOpts = configuration.load([], [str(self.config)])
        self.database = Database(self.conf)
        self._processes: list[releases.Process] = []
        self._heard: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.old = self._start('old', old_code)
        self.old.ask('upgrade')
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


@pytest.fixture(scope='session')
def old_code(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return releases.build_previous(tmp_path_factory.mktemp('previous'))


@pytest.fixture(params=['sqlite', 'mariadb'])
def both(
    request: pytest.FixtureRequest,
    tmp_path: pathlib.Path,
    new_database: Callable[[str], str],
    old_code: pathlib.Path,
) -> Iterator[Both]:
    both = Both(tmp_path, new_database(request.param), old_code)
    yield both
    both.close()


def wanted(**values: Any) -> dict[str, Any]:
    """Return a lease of one thing that starts now."""
    thing = {'resource_type': 'test:thing', 'resource_id': str(uuid.uuid4())}
    return {'name': 'n', 'end_date': '2099-01-01 10:00', 'reservations': [thing], **values}


def worked(process: releases.Process, lease_id: str) -> list[str]:
    return [what for what, lease in process.done if lease == lease_id]


def create(api: releases.Process, manager: releases.Process) -> str:
    """Create a lease by the API of a release and a manager of any; return its id."""
    lease = manager.ask('serve', api.ask('request', 'create_lease', wanted()))
    return str(lease['id'])


def test_each_process_runs_the_code_of_its_release(both: Both, old_code: pathlib.Path) -> None:
    assert pathlib.Path(both.old.code).is_relative_to(old_code)
    assert pathlib.Path(both.new.code).is_relative_to(releases.ROOT)


@pytest.mark.parametrize(('api', 'manager'), [('old', 'new'), ('new', 'old')])
def test_api_calls_a_manager_of_the_other_release(both: Both, api: str, manager: str) -> None:
    lease_id = create(getattr(both, api), getattr(both, manager))
    assert both.lease(lease_id).status == 'PENDING'


@pytest.mark.parametrize(('creator', 'other'), [('old', 'new'), ('new', 'old')])
def test_one_release_creates_and_the_other_starts_and_ends(
    both: Both, creator: str, other: str
) -> None:
    process = getattr(both, creator)
    lease_id = create(process, process)
    process = getattr(both, other)
    process.ask('run')
    process.until_finished('start_lease', lease_id)
    both.due_now('end_lease', lease_id)
    process.until(both.over)
    assert process.ask('pause')
    assert worked(process, lease_id) == ['wake', 'end']
    assert both.lease(lease_id).trust_id is None


@pytest.mark.parametrize(('starter', 'ender'), [('old', 'new'), ('new', 'old')])
def test_one_release_starts_and_the_other_ends(both: Both, starter: str, ender: str) -> None:
    first, second = getattr(both, starter), getattr(both, ender)
    lease_id = create(second, second)
    first.ask('run')
    first.until_finished('start_lease', lease_id)
    assert first.ask('pause')
    assert both.lease(lease_id).status == 'ACTIVE'
    both.due_now('end_lease', lease_id)
    second.ask('run')
    second.until(both.over)
    assert (worked(first, lease_id), worked(second, lease_id)) == (['wake'], ['end'])


def test_both_releases_together_do_each_thing_once(both: Both) -> None:
    leases = [create(process, process) for _ in range(10) for process in (both.old, both.new)]
    both.old.ask('run')
    both.new.ask('run')
    both.until(lambda: both.statuses() == {'ACTIVE'})
    for lease_id in leases:
        both.due_now('end_lease', lease_id)
    both.until(both.over)
    done = both.old.done + both.new.done
    assert sorted(done) == sorted((what, lease) for lease in leases for what in ('end', 'wake'))
