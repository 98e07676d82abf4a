# SPDX-License-Identifier: Apache-2.0
"""Tell what of the registered units a caller sees: those that the project may be promised."""

from collections.abc import Mapping
from typing import Any

from climate_core.calendar.model import Access
from climate_core.context import RequestContext
from climate_networks.db.registered_units import IsSeen


def of(context: RequestContext, sees_all: bool) -> IsSeen:
    """Return what tells whether a caller sees a unit.

    :param sees_all: whether the policy lets the caller see those of all projects
    """
    mine = context.project_id, context.project_domain_id

    def is_seen(stored: Mapping[str, Any] | None) -> bool:
        access = Access.load(stored)
        return sees_all or access is None or access.admits(*mine)

    return is_seen
