# SPDX-License-Identifier: Apache-2.0
"""Write what events make of their leases: those that come at once in one transaction.

A commit waits for a disk, and reading a lease takes two statements. So a thread that comes while
another one writes waits for it, and then one of those that wait writes for all of them: their
leases are read, changed and told of together. Alone, it is a transaction like any other. The fence
of each event stays its own: if one of them does not hold, none is written, and then each alone.
"""

from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any, Generic, TypeVar

from oslo_db import exception as db_exc
from sqlalchemy import orm

from climate_core.concurrency import Batches
from climate_core.db import leases, rows
from climate_core.db.engine import Database
from climate_core.lease.model import Lease

T = TypeVar('T')

#: The most leases of one transaction: their rows are locked until its commit.
_MOST = 32


class Superseded(Exception):
    """An event has gone on without the caller; raised before anything is written."""


class _Apart(Exception):
    """One of a group failed: each is to be written in a transaction of its own."""


class _Item(Generic[T]):
    """A function that waits for its transaction, and what came of it."""

    def __init__(self, lease_id: str, function: Callable[[orm.Session, Lease | None], T]) -> None:
        self.lease_id = lease_id
        self.function = function
        self.outcome: futures.Future[T] = futures.Future()


class GroupCommit:
    """Write leases together that are to be written at once.

    :param writers: how many transactions there may be at once
    """

    def __init__(self, database: Database, writers: int = 2) -> None:
        self._database = database
        # One for each lease: the next one is to read what it wrote.
        self.batches: Batches[_Item[Any]] = Batches(
            self._write_or_fail, lambda item: item.lease_id, _MOST, writers
        )

    def write(self, lease_id: str, function: Callable[[orm.Session, Lease | None], T]) -> T:
        """Return ``function(session, lease)`` of a transaction, perhaps one with others.

        :param lease_id: of the lease that is read for it, and locked; it is given None if there is
            none. It is called again if the transaction is repeated
        :raises Superseded: the function did, before it wrote anything; the others go on
        """
        item = _Item(lease_id, function)
        self.batches.do(item)
        return item.outcome.result()

    def _write_or_fail(self, group: Sequence[_Item[Any]]) -> None:
        try:
            self._write(group)
        except BaseException as exc:  # noqa: BLE001 - each of the group raises it
            for each in group:
                if not each.outcome.done():
                    each.outcome.set_exception(exc)

    def _write(self, group: Sequence[_Item[Any]]) -> None:
        try:
            found = self._database.write(_call_all, group)
        except db_exc.DBConnectionError:
            raise
        except (_Apart, db_exc.DBError):
            # What the database refuses may be of one of them.
            for each in group:
                self._write_alone(each)
            return
        for each, (result, error) in zip(group, found, strict=True):
            if error is None:
                each.outcome.set_result(result)
            else:
                each.outcome.set_exception(error)

    def _write_alone(self, item: _Item[Any]) -> None:
        try:
            item.outcome.set_result(self._database.write(_call, item))
        except Exception as exc:  # noqa: BLE001 - the caller raises it
            item.outcome.set_exception(exc)


def _call_all(
    session: orm.Session, group: Sequence[_Item[Any]]
) -> list[tuple[Any, Superseded | None]]:
    """Return the results of the functions of a group, and the errors of those that gave way."""
    if len(group) == 1:
        return [(_call(session, group[0]), None)]
    found = leases.lock_all(session, {each.lease_id for each in group})
    try:
        with rows.written_together(session):
            return [_try(session, each, found.get(each.lease_id)) for each in group]
    except db_exc.DBError:
        # A deadlock is tried again by all of them.
        raise
    except Exception as exc:
        raise _Apart from exc


def _try(
    session: orm.Session, item: _Item[T], lease: Lease | None
) -> tuple[T | None, Superseded | None]:
    try:
        return item.function(session, lease), None
    except Superseded as exc:
        return None, exc


def _call(session: orm.Session, item: _Item[T]) -> T:
    return item.function(session, leases.find(session, item.lease_id, lock=True))
