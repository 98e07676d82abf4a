# SPDX-License-Identifier: Apache-2.0
"""The extra properties of hosts in the database, and which of them users may not see."""

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import rows, tables
from climate_core.db.engine import Stale

_UNIT, _HOST, _PROPERTY = tables.UNITS, tables.HOSTS, tables.HOST_PROPERTIES


def values(
    session: orm.Session,
    is_shown: Callable[[Mapping[str, Any] | None], bool] = lambda _access: True,
) -> dict[str, list[Any]]:
    """Return the extra properties of hosts: their names, and the values that they have.

    :param is_shown: tells whether the properties of a host count; takes the access to
        a unit, as :class:`climate_core.calendar.model.Access` dumps it
    """
    found: dict[str, set[Any]] = {}
    query = sa.select(_HOST.c.extra, _UNIT.c.access)
    for row in session.execute(query.join_from(_HOST, _UNIT, _HOST.c.unit_id == _UNIT.c.id)):
        if is_shown(row.access):
            for name, value in row.extra.items():
                found.setdefault(name, set()).add(value)
    return {name: sorted(found[name], key=str) for name in sorted(found)}


def list_private(session: orm.Session) -> set[str]:
    """Return the names of the properties that users may not see."""
    query = sa.select(_PROPERTY.c.name).where(_PROPERTY.c.private.is_(True))
    return set(session.execute(query).scalars())


def set_private(session: orm.Session, name: str, private: bool) -> None:
    """Set whether users may see an extra property.

    :raises climate_core.exceptions.NotFound: no host has such a property
    """
    if name not in values(session):
        raise exceptions.HostPropertyNotFound(f'No host has an extra property {name}.')
    mine = sa.update(_PROPERTY).where(_PROPERTY.c.name == name).values(private=private)
    present = session.execute(sa.select(_PROPERTY.c.name).where(_PROPERTY.c.name == name)).first()
    if present is not None:
        rows.change(session, mine)
        return
    try:
        rows.insert(session, _PROPERTY, [{'name': name, 'private': private}])
    except db_exc.DBDuplicateEntry as exc:
        raise Stale(f'property {name}') from exc
