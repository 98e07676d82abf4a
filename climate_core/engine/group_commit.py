# SPDX-License-Identifier: Apache-2.0
"""Write what events make of their leases: those that come at once in one transaction.

The leases of those that come while another one writes are read, changed and told of together, see
:mod:`climate_core.db.groups`. The fence of each event stays its own.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy import orm

from climate_core.db import leases, rows
from climate_core.db.engine import Database
from climate_core.db.groups import Groups, Outcome
from climate_core.lease.model import Lease

T = TypeVar('T')

#: The most leases of one transaction: their rows are locked until its commit.
_MOST: Final = 32


class Superseded(Exception):
    """An event has gone on without the caller; raised before anything is written."""


class _Item(NamedTuple):
    """A function that waits for its transaction."""

    lease_id: str
    function: Callable[[orm.Session, Lease | None], Any]


class GroupCommit:
    """Write leases together that are to be written at once.

    :param writers: how many transactions there may be at once
    """

    def __init__(self, database: Database, writers: int = 2) -> None:
        # One for each lease: the next one is to read what it wrote.
        self.groups = Groups[_Item, Any](
            database, _call, _call_all, lambda item: item.lease_id, _MOST, writers
        )

    def write(self, lease_id: str, function: Callable[[orm.Session, Lease | None], T]) -> T:
        """Return ``function(session, lease)`` of a transaction, perhaps one with others.

        :param lease_id: of the lease that is read for it, and locked; it is given None if there is
            none. It is called again if the transaction is repeated
        :raises Superseded: the function did, before it wrote anything; the others go on
        """
        written: T = self.groups.write(_Item(lease_id, function))
        return written


def _call_all(session: orm.Session, group: Sequence[_Item]) -> list[Outcome[Any]]:
    """Return the results of the functions of a group, and the errors of those that gave way."""
    found = leases.lock_all(session, {each.lease_id for each in group})
    with rows.written_together(session):
        return [_try(session, each, found.get(each.lease_id)) for each in group]


def _try(session: orm.Session, item: _Item, lease: Lease | None) -> Outcome[Any]:
    try:
        return item.function(session, lease), None
    except Superseded as exc:
        return None, exc


def _call(session: orm.Session, item: _Item) -> Any:
    return item.function(session, leases.find(session, item.lease_id, lock=True))
