# SPDX-License-Identifier: Apache-2.0
"""The names of projects, for operators."""

from typing import Any

from horizon import exceptions
from openstack_dashboard.api import keystone


def names(request: Any) -> dict[str, str]:
    """Return the names of projects by their ids; nothing if Keystone returns an error."""
    try:
        found, _more = keystone.tenant_list(request)
    except Exception:  # noqa: BLE001
        exceptions.handle(request, ignore=True)
        return {}
    return {each.id: each.name for each in found}
