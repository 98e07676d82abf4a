# SPDX-License-Identifier: Apache-2.0
"""One cache of compiled statements for the engines of all tests.

Each test has databases of its own, so engines of its own, and to compile the same statements
for each of them takes a fifth of the time of the suites. SQLAlchemy keeps what it compiled by
the engine and its dialect: here engines share one cache, and dialects that write the same SQL
are equal.
"""

from sqlalchemy import util
from sqlalchemy.engine import Engine, default

#: Enough for the statements of nova, placement and the lease service together.
SIZE = 10_000

_cache = util.LRUCache(SIZE)


def _flavour(dialect):
    """Return what decides how a dialect writes a statement: its server is known once connected."""
    return (
        type(dialect),
        dialect.paramstyle,
        dialect.server_version_info,
        getattr(dialect, 'is_mariadb', None),
        dialect.max_identifier_length,
    )


def _equal(dialect, other):
    return type(dialect) is type(other) and _flavour(dialect) == _flavour(other)


def share():
    """Let all engines of this process share their statements."""
    # An engine sets this name to a cache of its own when it is made.
    Engine._compiled_cache = property(lambda engine: _cache, lambda engine, own: None)
    default.DefaultDialect.__eq__ = _equal
    default.DefaultDialect.__hash__ = lambda dialect: hash(type(dialect))
