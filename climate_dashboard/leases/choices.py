# SPDX-License-Identifier: Apache-2.0
"""List what can be chosen in the form of a new lease: flavors, images, networks and key pairs."""

from collections.abc import Callable, Iterable
from typing import Any

from django.utils.translation import gettext_lazy as _
from horizon import exceptions
from openstack_dashboard.api import glance, neutron, nova

Choices = list[tuple[str, Any]]


def flavors(request: Any) -> Choices:
    return _choices(request, _('Select a flavor'), lambda: nova.flavor_list(request))


def images(request: Any) -> Choices:
    return _choices(request, _('Select an image'), lambda: glance.image_list_detailed(request)[0])


def networks(request: Any) -> Choices:
    def read() -> Iterable[Any]:
        return neutron.network_list_for_tenant(request, request.user.project_id)

    return _choices(request, _('Select a network'), read)


def external_networks(request: Any) -> Choices:
    def read() -> Iterable[Any]:
        return neutron.network_list(request, **{'router:external': True})

    return _choices(request, _('Select an external network'), read)


def key_pairs(request: Any) -> Choices:
    return _choices(request, _('No key pair'), lambda: nova.keypair_list(request), 'name')


def _choices(
    request: Any, title: Any, read: Callable[[], Iterable[Any]], value: str = 'id'
) -> Choices:
    try:
        pairs = [(getattr(each, value), each.name or each.id) for each in read()]
    except Exception:  # noqa: BLE001
        exceptions.handle(request, _('Unable to retrieve the choices: %s') % title)
        pairs = []
    return [('', title), *sorted(pairs, key=lambda pair: str(pair[1]).lower())]
