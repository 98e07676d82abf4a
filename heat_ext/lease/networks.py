# SPDX-License-Identifier: Apache-2.0
"""Find the networks that the reservations of a template name, as Heat's own resources do.

Heat's translation rules reach only properties that have a schema; reservations have none.
"""

from collections.abc import Sequence
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


def find_known_ids(items: Sequence[Item], neutron: Any) -> list[Item]:
    """Return items as :func:`find_ids`; with its name where the network is not there any more."""
    found = []
    for each in items:
        try:
            found += find_ids([each], neutron)
        except exception.StackValidationFailed:
            found.append(each)
    return found


def _find_id(item: Item, number: int, neutron: Any) -> Item:
    name = item.get(_NETWORK)
    is_address = item.get('resource_type') == resource_types.FLOATING_IP
    if not is_address or not isinstance(name, str) or uuidutils.is_uuid_like(name):
        return item
    try:
        found = neutron.find_resourceid_by_name_or_id(neutron.RES_TYPE_NETWORK, name)
    except (exceptions.NotFound, exceptions.NeutronClientNoUniqueMatch) as error:
        # Other trouble of Neutron says nothing of the template: Heat tells it, and tries again.
        told = f'{RESERVATIONS}[{number}].{_NETWORK}: {error}'
        raise exception.StackValidationFailed(message=told)
    return {**item, _NETWORK: found}
