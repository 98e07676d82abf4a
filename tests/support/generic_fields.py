# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest: the table of lease fields with a generic row of each type.

It changes what a developer changes for a new field: the table, the columns, and the two classes.
It must be imported before anything that reads the table, so it runs in a dedicated process.
"""

import dataclasses
from typing import Any

import sqlalchemy as sa

from climate_common import lease_fields
from climate_common.lease_fields import API, CREATE, HEAT, HISTORY, NOTIFICATION, UPDATE

#: A field -> its type, its column, two values, and what else the row has.
ROWS: dict[str, tuple[str, Any, tuple[Any, Any], dict[str, Any]]] = {
    'description': (lease_fields.TEXT, sa.Text(), ('for tests', ''), {'maximum': 20}),
    'colour': (lease_fields.CHOICE, sa.Text(), ('red', 'blue'), {'choices': ('red', 'blue')}),
    'cost_center': (lease_fields.INTEGER, sa.Integer(), (7, 0), {'minimum': 0, 'maximum': 9}),
    'billable': (lease_fields.BOOLEAN, sa.Boolean(), (True, False), {}),
}
FIRST = {name: values[0] for name, (_, _, values, _) in ROWS.items()}
SECOND = {name: values[1] for name, (_, _, values, _) in ROWS.items()}
NONE = dict.fromkeys(ROWS)

_FIELDS = tuple(
    lease_fields.Field(
        name,
        json_type,
        f'The {name} of the lease.',
        frozenset({CREATE, UPDATE}),
        frozenset({API, NOTIFICATION, HISTORY, HEAT}),
        nullable=True,
        is_generic=True,
        **more,
    )
    for name, (json_type, _, _, more) in ROWS.items()
)


def _add_attributes(module: Any) -> None:
    """Replace the class of a lease by one that has the fields."""
    attributes = [(name, Any, dataclasses.field(default=None)) for name in ROWS]
    is_core = module.__name__.startswith('climate_core')
    module.Lease = dataclasses.make_dataclass(
        'Lease', attributes, bases=(module.Lease,), frozen=True, slots=True, kw_only=is_core
    )


def _add_columns(migrate: Any) -> Any:
    """Return a migration that ends with the columns."""

    def upgrade(conf: Any, *args: Any, **kw: Any) -> None:
        migrate(conf, *args, **kw)
        engine = sa.create_engine(conf.database.connection)
        with engine.begin() as connection:
            for name, (_, column_type, _, _) in ROWS.items():
                connection.execute(sa.text(f'ALTER TABLE leases ADD COLUMN {name} {column_type}'))
        engine.dispose()

    return upgrade


lease_fields.FIELDS += _FIELDS  # type: ignore[misc]
lease_fields.BY_NAME.update({field.name: field for field in _FIELDS})
lease_fields.GENERIC += _FIELDS  # type: ignore[misc]
lease_fields.CLEARABLE |= ROWS.keys()  # type: ignore[misc]

from climate_core.lease import model  # noqa: E402

_add_attributes(model)

from climateclient import models  # noqa: E402

_add_attributes(models)

from climate_core.db import migration, tables  # noqa: E402

for _name, (_, _column_type, _, _) in ROWS.items():
    tables.LEASES.append_column(sa.Column(_name, _column_type))
migration.upgrade = _add_columns(migration.upgrade)
