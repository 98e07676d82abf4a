# SPDX-License-Identifier: Apache-2.0
"""Plans of the databases for queries."""

from collections.abc import Callable, Sequence
from typing import Any

from climate_core.db.engine import Database
from tests.support.world import executed

#: How a plan is asked for.
EXPLAIN = {
    'sqlite': 'EXPLAIN QUERY PLAN {}',
    'postgresql': 'EXPLAIN {}',
    'mysql': 'EXPLAIN FORMAT=JSON {}',
}
#: A few rows are sorted faster than read in order; what matters is that they need not be.
SETTINGS = ('enable_sort', 'enable_seqscan', 'enable_bitmapscan')


def plans(
    database: Database,
    function: Callable[..., Any],
    *args: Any,
    settings: Sequence[str] = SETTINGS,
) -> list[str]:
    """Return the plan of each query that a function makes.

    :param settings: what the planner of PostgreSQL is not to use
    """
    seen = executed(database, lambda: database.read(function, *args))
    dialect = database.engine.dialect.name
    with database.engine.connect() as connection:
        if dialect == 'postgresql':
            for setting in settings:
                connection.exec_driver_sql(f'SET LOCAL {setting} = off')
        explained = [
            connection.exec_driver_sql(EXPLAIN[dialect].format(statement), parameters).all()
            for statement, parameters in seen
            if statement.startswith('SELECT')
        ]
    # The text of a whole row would be cut.
    return ['\n'.join(' '.join(map(str, row)) for row in rows) for rows in explained]
