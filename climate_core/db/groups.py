# SPDX-License-Identifier: Apache-2.0
"""Write what comes at once in one transaction, as if each were written in one of its own.

A commit waits for a disk, and each statement for the database. So a thread that comes while
another one writes waits for it, and then one of those that wait writes for all of them. Alone, it
is a transaction like any other. If one of them cannot be written, none is, and then each alone.
"""

from collections.abc import Callable, Hashable, Sequence
from concurrent import futures
from typing import Generic, TypeVar

from oslo_db import exception as db_exc
from sqlalchemy import orm

from climate_core.concurrency import Batches
from climate_core.db.engine import Database

I = TypeVar('I')  # noqa: E741 - an item
T = TypeVar('T')

#: What came of an item: its result, or why nothing was written for it.
Outcome = tuple[T | None, Exception | None]


class _Apart(Exception):
    """One of a group failed: each is to be written in a transaction of its own."""


class _Waiting(Generic[I, T]):
    """An item that waits for its transaction, and what came of it."""

    def __init__(self, item: I) -> None:
        self.item = item
        self.outcome: futures.Future[T] = futures.Future()


class Groups(Generic[I, T]):
    """Write items together that are to be written at once.

    :param write_one: writes one: ``write_one(session, item)`` returns its result
    :param write_all: the same for several: ``write_all(session, items)`` returns an outcome for
        each, or raises if it cannot tell what is wrong with which
    :param key: items with the same key are not written in the same transaction
    :param most: the most items of a transaction
    :param writers: how many transactions of a line there may be at once
    :param line: items of different lines neither share a transaction nor wait for each other
    """

    def __init__(
        self,
        database: Database,
        write_one: Callable[[orm.Session, I], T],
        write_all: Callable[[orm.Session, Sequence[I]], Sequence[Outcome[T]]],
        key: Callable[[I], Hashable],
        most: int,
        writers: int = 1,
        line: Callable[[I], Hashable] = lambda _: None,
    ) -> None:
        self._database = database
        self._write_one, self._write_all = write_one, write_all
        self.batches: Batches[_Waiting[I, T]] = Batches(
            self._write_or_fail,
            lambda each: key(each.item),
            most,
            writers,
            lambda each: line(each.item),
        )

    def write(self, item: I) -> T:
        """Write an item, perhaps with others, and return its result once it is committed.

        Raises as a transaction of its own would.
        """
        waiting = _Waiting[I, T](item)
        self.batches.do(waiting)
        return waiting.outcome.result()

    def _write_or_fail(self, group: Sequence[_Waiting[I, T]]) -> None:
        try:
            self._write(group)
        except BaseException as exc:  # noqa: BLE001 - each of the group raises it
            for each in group:
                if not each.outcome.done():
                    each.outcome.set_exception(exc)

    def _write(self, group: Sequence[_Waiting[I, T]]) -> None:
        if len(group) > 1:
            try:
                items = [each.item for each in group]
                outcomes = self._database.write(self._try_all, items)
            except db_exc.DBConnectionError:
                # It may be committed all the same.
                raise
            except (_Apart, db_exc.DBError):
                # What the database refuses may be of one of them.
                pass
            else:
                for each, outcome in zip(group, outcomes, strict=True):
                    _tell(each, *outcome)
                return
        for each in group:
            self._write_alone(each)

    def _try_all(self, session: orm.Session, items: Sequence[I]) -> Sequence[Outcome[T]]:
        try:
            return self._write_all(session, items)
        except db_exc.DBError:
            # A deadlock is tried again by all of them.
            raise
        except Exception as exc:
            raise _Apart from exc

    def _write_alone(self, waiting: _Waiting[I, T]) -> None:
        try:
            waiting.outcome.set_result(self._database.write(self._write_one, waiting.item))
        except Exception as exc:  # noqa: BLE001 - the caller raises it
            waiting.outcome.set_exception(exc)


def _tell(waiting: _Waiting[I, T], result: T | None, error: Exception | None) -> None:
    if error is not None:
        waiting.outcome.set_exception(error)
    else:
        waiting.outcome.set_result(result)  # type: ignore[arg-type]
