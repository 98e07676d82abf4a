# SPDX-License-Identifier: Apache-2.0
"""The extra properties of hosts and of network segments in the database.

Which of them users may not see is kept by name.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import rows, tables
from climate_core.db.engine import Stale

#: Returns whether a caller may see a unit; takes the access to it, as
#: :class:`climate_core.calendar.model.Access` dumps it.
IsSeen = Callable[[Mapping[str, Any] | None], bool]

_UNIT = tables.UNITS
#: The text of no properties at all.
_NONE: Final = '{}'


@dataclasses.dataclass(frozen=True, slots=True)
class ExtraProperties:
    """The extra properties of what operators register.

    :param things: the table of what has them, with a ``unit_id`` and ``extra``
    :param table: of the names that users may not see, or may
    :param noun: of what has them, for people
    :param not_found: the error for a name that nothing has
    """

    things: sa.Table
    table: sa.Table
    noun: str
    not_found: type[exceptions.NotFound]

    def values(
        self,
        session: orm.Session,
        is_shown: IsSeen = lambda _access: True,
    ) -> dict[str, list[Any]]:
        """Return the extra properties that there are: their names, and the values that they have.

        One row is read for all that have the same properties and may be used by the same projects.

        :param is_shown: tells whether the properties of those with this access count
        """
        found: dict[str, set[Any]] = {}
        query = (
            sa.select(self.things.c.extra, _UNIT.c.access)
            .join_from(self.things, _UNIT, self.things.c.unit_id == _UNIT.c.id)
            .where(sa.type_coerce(self.things.c.extra, sa.Text) != _NONE)
            .distinct()
        )
        for row in session.execute(query):
            if is_shown(row.access):
                for name, value in row.extra.items():
                    found.setdefault(name, set()).add(value)
        return {name: sorted(found[name], key=str) for name in sorted(found)}

    def list_private(self, session: orm.Session) -> set[str]:
        """Return the names of the properties that users may not see."""
        query = sa.select(self.table.c.name).where(self.table.c.private.is_(True))
        return set(session.execute(query).scalars())

    def set_private(self, session: orm.Session, name: str, private: bool) -> None:
        """Set whether users may see an extra property.

        :raises climate_core.exceptions.NotFound: nothing has such a property
        """
        if name not in self.values(session):
            raise self.not_found(f'No {self.noun} has an extra property {name}.')
        mine = self.table.c.name == name
        present = session.execute(sa.select(self.table.c.name).where(mine)).first()
        if present is not None:
            rows.change(session, sa.update(self.table).where(mine).values(private=private))
            return
        try:
            rows.insert(session, self.table, [{'name': name, 'private': private}])
        except db_exc.DBDuplicateEntry as exc:
            raise Stale(f'property {name}') from exc
