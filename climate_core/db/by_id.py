# SPDX-License-Identifier: Apache-2.0
"""Make statements that change rows by their ids, one row or many.

Each is made once for the columns that it changes and a number of rows: to make one, and to compile
it, takes much longer than to execute it. Rows with values of their own are told apart by CASE.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

#: The numbers of rows for which there are statements; the last row is named more than once.
_SIZES: Final = (1, 2, 4, 8, 16, 32)


class RowChange(NamedTuple):
    """Say what one row becomes.

    :param generation: the one that was read, by which it is known; None: it is changed in any case
    :param values: column -> new value
    """

    row_id: str
    generation: int | None
    values: Mapping[str, Any]


def batches(changes: Sequence[RowChange]) -> list[Sequence[RowChange]]:
    """Split changes into those of one statement each."""
    most = _SIZES[-1]
    return [changes[at : at + most] for at in range(0, len(changes), most)]


def size(count: int) -> int:
    """Return for how many rows the statement is that changes so many, at most a batch."""
    return next(each for each in _SIZES if each >= count)


@functools.cache
def update(table: sa.Table, names: tuple[str, ...], guarded: bool, rows: int) -> sa.Update:
    """Return the statement that sets these columns of so many rows.

    :param guarded: whether rows are only changed that have the generation that was read
    """
    numbers = range(rows)
    ids = [sa.bindparam(f'id_{n}', type_=table.c.id.type) for n in numbers]

    def of_row(column: sa.Column[Any], name: str) -> sa.ColumnElement[Any]:
        values = [sa.bindparam(f'{name}_{n}', type_=column.type) for n in numbers]
        if rows == 1:
            return values[0]
        return sa.case(*zip(ids, values, strict=True), value=table.c.id, else_=column)

    found = sa.update(table).where(table.c.id == ids[0] if rows == 1 else table.c.id.in_(ids))
    if guarded:
        found = found.where(table.c.generation == of_row(table.c.generation, 'was'))
    return found.values({name: of_row(table.c[name], f'new_{name}') for name in names})


def parameters(changes: Sequence[RowChange]) -> dict[str, Any]:
    """Return the parameters of a statement of :func:`update`."""
    padded = [*changes, *[changes[-1]] * (size(len(changes)) - len(changes))]
    found: dict[str, Any] = {}
    for number, (row_id, generation, values) in enumerate(padded):
        found[f'id_{number}'] = row_id
        if generation is not None:
            found[f'was_{number}'] = generation
        for name, value in values.items():
            found[f'new_{name}_{number}'] = value
    return found
