# SPDX-License-Identifier: Apache-2.0
"""The parameter ``fields``: what of a lease is read and answered."""

from collections.abc import Collection, Mapping
from typing import Any

from climate_core.db import leases


def parts(fields: Collection[str] | None) -> Collection[str]:
    """Return what must be read with a lease to answer these fields; None: all of them."""
    return leases.PARTS if fields is None else leases.PARTS & set(fields)


def chosen(shown: Mapping[str, Any], fields: Collection[str] | None) -> dict[str, Any]:
    """Return only these fields; None: all of them."""
    return {name: value for name, value in shown.items() if fields is None or name in fields}
