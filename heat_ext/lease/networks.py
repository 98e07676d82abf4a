# SPDX-License-Identifier: Apache-2.0
"""Find the networks that the reservations of a template name, as Heat's own resources do.

Heat's translation rules reach only properties that have a schema; reservations have none.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from heat.common import exception
from neutronclient.common import exceptions
from oslo_utils import uuidutils

from climate_common import resource_types
from heat_ext.lease.properties import RESERVATIONS
from heat_ext.lease.reservations import Item

_NETWORK: Final = 'network_id'


def find_ids(items: Sequence[Item], neutron: Any) -> list[Item]:
    """Return items with the ids of networks in place of their names.

    :param neutron: heat's client plugin of this name; asked only for names
    :raises heat.common.exception.StackValidationFailed: with the item whose network is not there
    """
    return [_find_id(each, number, neutron) for number, each in enumerate(items)]


def find_known_ids(items: Sequence[Item], neutron: Any, known: Mapping[str, str]) -> list[Item]:
    """Return items as :func:`find_ids`, by what their names stood for.

    :param known: the ids of networks by their names, of when the items were reserved; neutron is
        asked for the others, and a name is left where it has no such network
    """
    found = []
    for each in items:
        if _is_named(each) and each[_NETWORK] in known:
            found.append({**each, _NETWORK: known[each[_NETWORK]]})
            continue
        try:
            found += find_ids([each], neutron)
        except exception.StackValidationFailed:
            found.append(each)
    return found


def list_named(items: Sequence[Item], found: Sequence[Item]) -> dict[str, str]:
    """Return the ids of networks by the names that items have.

    :param found: the same items with the ids, see :func:`find_ids`
    """
    both = zip(items, found, strict=True)
    return {each[_NETWORK]: one[_NETWORK] for each, one in both if _is_named(each)}


def _is_named(item: Item) -> bool:
    name = item.get(_NETWORK)
    is_address = item.get('resource_type') == resource_types.FLOATING_IP
    return is_address and isinstance(name, str) and not uuidutils.is_uuid_like(name)


def _find_id(item: Item, number: int, neutron: Any) -> Item:
    if not _is_named(item):
        return item
    try:
        found = neutron.find_resourceid_by_name_or_id(neutron.RES_TYPE_NETWORK, item[_NETWORK])
    except (exceptions.NotFound, exceptions.NeutronClientNoUniqueMatch) as error:
        # Heat reports other errors of Neutron, and tries again.
        message = f'{RESERVATIONS}[{number}].{_NETWORK}: {error!s:.500}'
        raise exception.StackValidationFailed(message=message)
    return {**item, _NETWORK: found}
