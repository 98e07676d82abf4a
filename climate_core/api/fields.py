# SPDX-License-Identifier: Apache-2.0
"""Apply the parameter ``fields``: which fields of a lease are read and returned."""

from collections.abc import Collection, Mapping
from typing import Any

from climate_core.db import leases


def parts(fields: Collection[str] | None) -> Collection[str]:
    """Return the parts of a lease that must be read for these fields; None: all of them."""
    return leases.PARTS if fields is None else leases.PARTS & set(fields)


def chosen(shown: Mapping[str, Any], fields: Collection[str] | None) -> dict[str, Any]:
    """Return only these fields; None: all of them."""
    return {name: value for name, value in shown.items() if fields is None or name in fields}
