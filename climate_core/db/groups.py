# SPDX-License-Identifier: Apache-2.0
"""Write what comes at once in one transaction, as if each were written in one of its own.

A commit waits for a disk, and each statement for the database: many items cost little more than
one. If one of them cannot be written, none is, and then each alone.
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
Outcome = tuple[T | None, BaseException | None]


class _Apart(Exception):
    """One of a group failed: each is to be written in a transaction of its own."""


def write_together(
    database: Database,
    write_one: Callable[[orm.Session, I], T],
    write_all: Callable[[orm.Session, Sequence[I]], Sequence[Outcome[T]]],
    items: Sequence[I],
) -> list[Outcome[T]]:
    """Write items in one transaction, or each in one of its own if that cannot be.

    :param write_one: writes one: ``write_one(session, item)`` returns its result
    :param write_all: the same for several: ``write_all(session, items)`` returns an outcome for
        each, or raises if it cannot tell what is wrong with which
    :returns: an outcome for each, in their order
    """
    if len(items) > 1:
        try:
            return list(database.write(_try_all, write_all, items))
        except db_exc.DBConnectionError as exc:
            # They may be committed all the same.
            return [(None, exc)] * len(items)
        except (_Apart, db_exc.DBError):
            # What the database refuses may be of one of them.
            pass
    return [_write_alone(database, write_one, each) for each in items]


def _try_all(
    session: orm.Session,
    write_all: Callable[[orm.Session, Sequence[I]], Sequence[Outcome[T]]],
    items: Sequence[I],
) -> Sequence[Outcome[T]]:
    try:
        return write_all(session, items)
    except db_exc.DBError:
        # A deadlock is tried again by all of them.
        raise
    except Exception as exc:
        raise _Apart from exc


def _write_alone(
    database: Database, write_one: Callable[[orm.Session, I], T], item: I
) -> Outcome[T]:
    try:
        return database.write(write_one, item), None
    except Exception as exc:  # noqa: BLE001 - whoever asked for it raises it
        return None, exc


class _Waiting(Generic[I, T]):
    """An item that waits for its transaction, and what came of it."""

    def __init__(self, item: I) -> None:
        self.item = item
        self.outcome: futures.Future[T] = futures.Future()


class Groups(Generic[I, T]):
    """Write what threads bring at once together.

    A thread that comes while another one writes waits for it, and then one of those that wait
    writes for all of them. Alone, it is a transaction like any other.

    :param write_one: see :func:`write_together`, like ``write_all``
    :param key: items with the same key are not written in the same transaction
    :param most: the most items of a transaction
    :param line: items of different lines neither share a transaction nor wait for each other
    """

    def __init__(
        self,
        database: Database,
        write_one: Callable[[orm.Session, I], T],
        write_all: Callable[[orm.Session, Sequence[I]], Sequence[Outcome[T]]],
        key: Callable[[I], Hashable],
        most: int,
        line: Callable[[I], Hashable] = lambda _: None,
    ) -> None:
        self._database = database
        self._write_one, self._write_all = write_one, write_all
        self.batches: Batches[_Waiting[I, T]] = Batches(
            self._write, lambda each: key(each.item), most, lambda each: line(each.item)
        )

    def write(self, item: I) -> T:
        """Write an item, perhaps with others, and return its result once it is committed.

        Raises as a transaction of its own would.
        """
        waiting = _Waiting[I, T](item)
        self.batches.do(waiting)
        return waiting.outcome.result()

    def _write(self, group: Sequence[_Waiting[I, T]]) -> None:
        try:
            items = [each.item for each in group]
            outcomes = write_together(self._database, self._write_one, self._write_all, items)
        except BaseException as exc:  # noqa: BLE001 - each of the group raises it
            outcomes = [(None, exc)] * len(group)
        for each, (result, error) in zip(group, outcomes, strict=True):
            if error is not None:
                each.outcome.set_exception(error)
            else:
                each.outcome.set_result(result)  # type: ignore[arg-type]
