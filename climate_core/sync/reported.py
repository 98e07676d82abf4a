# SPDX-License-Identifier: Apache-2.0
"""Verify what services have reported of the resources that they reserve.

The API accepts the id and the amounts of a resource from any service, since to ask for it then
would block that service. Each reservation is verified once. Until then the project is compared
before each step, see :mod:`climate_core.plugins.wakeable`.
"""

from collections.abc import Iterator, Sequence

from oslo_log import log

from climate_core.cloud import errors
from climate_core.db import leases, reservations
from climate_core.db.engine import Database
from climate_core.lease.history import Cause
from climate_core.lease.model import REPORTED, Reservation
from climate_core.plugins.base import NotOfLease, ResourcePlugin
from climate_core.sync import lost_resources

LOG = log.getLogger(__name__)

#: Reservations that are read, and noted, at once. An outage repeats the requests of one page.
_PAGE = 20
_REJECTED = Cause('resource.rejected')


def verify(database: Database, plugin: ResourcePlugin) -> Iterator[str]:
    """Correct wrong amounts, and remove what is not of its lease; yield a sentence for each.

    One request for each reservation that is not verified, and a few statements for each page.
    """
    after = ''
    while page := database.read(
        reservations.read_reported_page, plugin.resource_type, after, _PAGE
    ):
        yield from _verify(database, plugin, [each for each in page if REPORTED in each.params])
        after = page[-1].id


def _verify(
    database: Database, plugin: ResourcePlugin, page: Sequence[Reservation]
) -> Iterator[str]:
    """Verify reservations; yield what was wrong."""
    holders = database.read(leases.find_holders, [each.key for each in page])
    read = []
    for held in page:
        lease = holders.get(held.key)
        if lease is None or lease.id != held.lease_id:
            continue
        try:
            amounts = plugin.read_reported(lease, held)
        except errors.Gone:
            # It is found missing.
            continue
        except errors.Broken as exc:
            # A service may fail for one resource alone, which must not keep the others from it.
            LOG.warning('Could not verify %s %s: %s', plugin.title, held.resource_id, exc)
            continue
        except NotOfLease as exc:
            if lost_resources.mark_lost(database, lease.id, {held.id: str(exc)}, _REJECTED):
                yield f'Lease {lease.id}: {exc} It was removed.'
            continue
        if amounts is not None:
            read.append((held, amounts))
    for held, amounts in lost_resources.settle_reported(database, read):
        yield (
            f'Lease {held.lease_id}: {plugin.title} {held.resource_id} holds {dict(amounts)}, '
            f'not {dict(held.amounts)}. It was corrected.'
        )
