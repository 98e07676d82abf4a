# SPDX-License-Identifier: Apache-2.0
"""What is counted: statements, calls, CPU time. A reading before, one after, the difference."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import pymysql.connections

from tests.bench.processes import Process

#: Statements that read or change rows; the rest are COMMIT, ROLLBACK, SET and the like.
_DATA = ('select', 'insert', 'insert_select', 'update', 'delete', 'replace')


@dataclasses.dataclass(frozen=True)
class Reading:
    """Counters at one moment.

    :param statements: what the server has executed (MariaDB's ``Questions``: pings and the
        statements inside of others are not in it), without the bench's own
    :param data: those of them that read or change rows (``Com_select`` and so on)
    :param calls: HTTP calls that the cloud has got
    :param cpu_ms: CPU of the API and the manager, children included, milliseconds
    :param database_cpu_ms: CPU of the database server, milliseconds
    """

    statements: float
    data: float
    calls: float
    cpu_ms: float
    database_cpu_ms: float

    def since(self, before: 'Reading', times: float) -> 'Reading':
        """Return the difference, divided by the number of operations."""
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(before), strict=True)
        return Reading(*((now - then) / times for now, then in pairs))


class Probe:
    """The bench's connection to the database; it knows what it did itself."""

    def __init__(self, connection: pymysql.connections.Connection) -> None:
        self._connection = connection
        self._statements = 0
        self._selects = 0

    def rows(self, statement: str, arguments: Sequence[Any] = ()) -> tuple[Any, ...]:
        """Run a SELECT or a SHOW."""
        self._statements += 1
        self._selects += statement.startswith('SELECT')
        with self._connection.cursor() as cursor:
            cursor.execute(statement, arguments)
            return tuple(cursor.fetchall())

    def counters(self) -> tuple[int, int]:
        """Return statements and data statements of the others since the server started."""
        values = {name: int(value) for name, value in self.rows(_STATUS)}
        data = sum(values[f'Com_{verb}'] for verb in _DATA)
        return values['Questions'] - self._statements, data - self._selects

    def kinds(self) -> dict[str, int]:
        """Return how many statements of each kind the server has executed for the others."""
        found = self.rows("SHOW GLOBAL STATUS WHERE Variable_name LIKE 'Com%%'")
        names = (*_DATA, 'begin', 'commit', 'rollback', 'set_option')
        wanted = [(name.removeprefix('Com_'), value) for name, value in found]
        counted = {name: int(value) for name, value in wanted if name in names}
        return {**counted, 'select': counted['select'] - self._selects}


_NAMES = ', '.join(f"'{name}'" for name in ('Questions', *(f'Com_{verb}' for verb in _DATA)))
_STATUS = f'SHOW GLOBAL STATUS WHERE Variable_name IN ({_NAMES})'


class Measured(Protocol):
    """What uses CPU."""

    def cpu_ms(self) -> float:
        """Return the CPU milliseconds that it has used so far."""
        ...


class Meter:
    """Takes readings of one service.

    :param probe: the database
    :param database: its process
    :param processes: the API and the manager
    :param calls: asks the cloud for its count
    """

    def __init__(
        self,
        probe: Probe,
        database: Process,
        processes: Iterable[Measured],
        calls: Callable[[], int],
    ) -> None:
        self._probe, self._database, self._calls = probe, database, calls
        self._processes = list(processes)

    def read(self) -> Reading:
        statements, data = self._probe.counters()
        return Reading(
            statements,
            data,
            self._calls(),
            sum(process.cpu_ms() for process in self._processes),
            self._database.cpu_ms(),
        )
