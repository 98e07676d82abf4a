# SPDX-License-Identifier: Apache-2.0
"""Verify what services have reported of the resources that they reserve.

The API accepts the id and the amounts of a resource from any service, since to ask for it then
would block that service. Each reservation is verified once. Until then the project is compared
before each step, see :mod:`climate_core.plugins.wakeable`.
"""

from collections.abc import Iterator

from oslo_log import log

from climate_core.cloud import errors
from climate_core.db import leases, missing, reservations
from climate_core.db.engine import Database
from climate_core.lease.history import Cause
from climate_core.lease.model import REPORTED, Reservation
from climate_core.plugins.base import NotOfLease, ResourcePlugin

LOG = log.getLogger(__name__)

#: Reservations that are read at once.
_PAGE = 500
_REJECTED = Cause('resource.rejected')


def verify(database: Database, plugin: ResourcePlugin) -> Iterator[str]:
    """Correct wrong amounts, and remove what is not of its lease; yield a sentence for each.

    One request for each reservation that is not verified.
    """
    after = ''
    while page := database.read(reservations.reported, plugin.resource_type, after, _PAGE):
        for each in page:
            told = _verify(database, plugin, each) if REPORTED in each.params else None
            if told:
                yield f'Lease {each.lease_id}: {told}'
        after = page[-1].id


def _verify(database: Database, plugin: ResourcePlugin, held: Reservation) -> str | None:
    """Verify a reservation; return what was wrong."""
    lease = database.read(leases.find, held.lease_id)
    if lease is None:
        return None
    try:
        amounts = plugin.read_reported(lease, held)
    except errors.Gone:
        # It is found missing.
        return None
    except errors.Broken as exc:
        # A service may fail for one resource alone, which must not keep the others from it.
        LOG.warning('Could not verify %s %s: %s', plugin.title, held.resource_id, exc)
        return None
    except NotOfLease as exc:
        rejected = missing.mark_lost(database, lease.id, {held.id: str(exc)}, _REJECTED)
        return f'{exc} It was removed.' if rejected else None
    if amounts is None or not missing.settle_reported(database, lease.id, held.id, amounts):
        return None
    return (
        f'{plugin.title} {held.resource_id} holds {dict(amounts)}, not {dict(held.amounts)}. It '
        'was corrected.'
    )
