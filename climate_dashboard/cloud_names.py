# SPDX-License-Identifier: Apache-2.0
"""The names of projects and networks by their ids; none if their service returns an error."""

from collections.abc import Callable, Iterable
from typing import Any

from horizon import exceptions
from openstack_dashboard.api import keystone, neutron


def projects(request: Any) -> dict[str, str]:
    """Return the names of projects, for operators."""
    return _names(request, lambda: keystone.tenant_list(request)[0])


def external_networks(request: Any) -> dict[str, str]:
    """Return the names of the networks of floating IPs."""
    return _names(request, lambda: neutron.network_list(request, **{'router:external': True}))


def _names(request: Any, read: Callable[[], Iterable[Any]]) -> dict[str, str]:
    try:
        return {each.id: each.name for each in read() if each.name}
    except Exception:  # noqa: BLE001
        exceptions.handle(request, ignore=True)
        return {}
