# SPDX-License-Identifier: Apache-2.0
"""A connection that goes back to its pool is rolled back only if that is needed."""

import gc
from collections.abc import Callable

import pymysql.connections
import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import sql, tables
from climate_core.db.engine import Database
from tests.support.world import configure


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what was sent to MariaDB at the ends of transactions."""
    found: list[str] = []
    for name in ('commit', 'rollback'):
        real = getattr(pymysql.connections.Connection, name)

        def send(connection: object, name: str = name, real: Callable[..., None] = real) -> None:
            found.append(name)
            real(connection)

        monkeypatch.setattr(pymysql.connections.Connection, name, send)
    return found


def test_each_transaction_ends_once(new_database: Callable[[str], str], sent: list[str]) -> None:
    database = Database(configure(new_database('mariadb')))
    tables.load_metadata().create_all(database.engine)
    database.read(sql.read_time)
    sent.clear()
    database.read(sql.read_time)
    assert sent == ['rollback']
    sent.clear()
    row = {'kind': 'host', 'pool': 'default', 'available': True, 'capacity': {}, 'lanes': 1}
    more = {'properties': {}, 'generation': 0, 'changed_at': database.read(sql.read_time)}

    def write(session: orm.Session, fail: bool) -> None:
        session.execute(sa.insert(tables.UNITS).values(**row, **more))
        if fail:
            raise ValueError

    sent.clear()
    database.write(write, False)
    assert sent == ['commit']
    sent.clear()
    with pytest.raises(ValueError):
        database.write(write, True)
    assert sent == ['rollback']
    with database.reader() as session:
        assert session.scalar(sa.select(sa.func.count()).select_from(tables.UNITS)) == 1
    # One that nobody gave back is open until then, and nothing of it stays.
    connection = database.engine.connect()
    connection.execute(sa.insert(tables.UNITS).values(**row, **more))
    sent.clear()
    del connection
    gc.collect()
    assert sent == ['rollback']
    database.dispose()


def test_first_connection_needs_no_attempt_of_oslo_db(new_database: Callable[[str], str]) -> None:
    """SQLAlchemy prepares the first connection outside of the pool, unless oslo.db made one."""
    conf = configure(new_database('mariadb'))
    conf.set_override('max_retries', 0, group='database')
    database = Database(conf)
    assert database.read(sql.read_time) is not None
    database.dispose()
