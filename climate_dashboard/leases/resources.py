# SPDX-License-Identifier: Apache-2.0
"""Show what a reservation holds, with links to the pages of other panels."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from django import urls
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext_lazy as _

from climate_common import resource_types
from climate_dashboard import amounts, words
from climateclient.models import Reservation

#: The type of a resource -> the page that shows one.
_PAGES: Final = {
    resource_types.SERVER: 'horizon:project:instances:detail',
    resource_types.VOLUME: 'horizon:project:volumes:detail',
    resource_types.STACK: 'horizon:project:stacks:detail',
    resource_types.NETWORK: 'horizon:project:networks:detail',
}
#: The type of a resource -> the page of all of them.
_LISTS: Final = {
    resource_types.FLOATING_IP: 'horizon:project:floating_ips:index',
    resource_types.HOST: 'horizon:admin:climate_hosts:index',
}


def shown(reservation: Reservation, names: Mapping[str, str], is_operator: bool) -> Any:
    """Return what a reservation holds, each with a link to its page if there is one.

    :param names: those of resources by their ids, as far as they are known
    """
    resource_type = words.type_of(reservation)
    links = [*_links(reservation, resource_type, names, is_operator)]
    return format_html_join(', ', '{}', ((each,) for each in links)) or summarize_request(
        reservation
    )


def summarize_request(reservation: Reservation) -> str:
    """Return what a reservation asks for, in words."""
    params = reservation.params
    parts = []
    if 'min' in params or 'max' in params:
        least, most = params.get('min', 1), params.get('max', 1)
        parts.append(str(least) if least == most else f'{least}-{most}')
    if params.get('amount') is not None:
        parts.append(str(params['amount']))
    conditions = ['hypervisor_properties', 'resource_properties', 'resources', 'pool']
    if reservation.resource_type == resource_types.CAPACITY:
        parts.append(_flavor_name(params))
        conditions.remove('resource_properties')
    else:
        for name in ('vcpus', 'memory_mb', 'disk_gb'):
            if params.get(name) is not None:
                size = amounts.show(name, params[name])
                parts.append(f'{words.word(words.UNITS, name)}: {size}')
    for name in conditions:
        if params.get(name):
            parts.append(str(params[name]))
    server = params.get('server')
    if isinstance(server, Mapping):
        parts.append(_('to be created: %s') % (server.get('name') or server.get('count') or 1))
    return ', '.join(str(each) for each in parts) or '-'


def _flavor_name(params: Mapping[str, Any]) -> str:
    """Return the name of the flavor of the request; only its text is shown, as in Blazar."""
    try:
        return str(json.loads(params['resource_properties'])['name'])
    except (KeyError, TypeError, ValueError):
        return str(params.get('flavor_id'))


def _links(
    reservation: Reservation, resource_type: str, names: Mapping[str, str], is_operator: bool
) -> Iterator[Any]:
    params = reservation.params
    if resource_type == resource_types.HOST:
        page = _LISTS[resource_type] if is_operator else None
        for host in params.get('hosts') or ():
            yield _link(page, host)
    elif resource_type == resource_types.FLOATING_IP and params.get('floatingips'):
        for address in params['floatingips']:
            yield _link(_LISTS[resource_type], address)
    elif resource_type == resource_types.NETWORK and params.get('network_id'):
        network_id = params['network_id']
        yield _link(_PAGES[resource_type], params.get('network_name') or network_id, network_id)
    elif reservation.resource_id and resource_type in _PAGES:
        found = reservation.resource_id
        yield _link(_PAGES[resource_type], names.get(found) or params.get('name') or found, found)


def _link(page: str | None, text: str, *arguments: str) -> Any:
    try:
        return format_html('<a href="{}">{}</a>', urls.reverse(page, args=arguments), text)
    except urls.NoReverseMatch:
        # The panel is not there: Heat's is a plugin of its own.
        return text
