# SPDX-License-Identifier: Apache-2.0
"""Connections to files of SQLite that are used again.

oslo.db opens a file of SQLite anew for each transaction, and SQLite then reads the whole schema:
with the databases of nova that takes a fifth of the time of its suite. Here an engine keeps its
connections, as it does those to a database server.
"""

import weakref
from typing import Any

import sqlalchemy as sa
from oslo_db.sqlalchemy import engines
from sqlalchemy import pool

_pools: 'weakref.WeakSet[Connections]' = weakref.WeakSet()


class Connections(pool.QueuePool):
    """The connections of one engine, as many as its threads need."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _pools.add(self)


def keep() -> None:
    """Let the engines that oslo.db makes from now on keep their connections to files."""

    @engines._init_connection_args.dispatch_for('sqlite')
    def _keep(url: sa.URL, arguments: dict[str, Any], options: dict[str, Any]) -> None:
        if arguments.get('poolclass') is pool.NullPool:
            # A file does not go away, as a server may: no connection has to be tried.
            arguments.update(poolclass=Connections, max_overflow=-1, pool_pre_ping=False)


def close() -> None:
    """Close those that are not in use."""
    for each in list(_pools):
        each.dispose()
