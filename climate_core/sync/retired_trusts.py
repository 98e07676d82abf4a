# SPDX-License-Identifier: Apache-2.0
"""Delete the trusts that leases of an owner shared when no lease needs them any more."""

from collections.abc import Iterator

from climate_core.cloud.trusts import Trusts
from climate_core.db import owner_trusts
from climate_core.db.engine import Database


def find(database: Database) -> Iterator[str]:
    """Retire what no lease needs; yield the ids of trusts that were retired long enough ago."""
    live, old = database.read(owner_trusts.unneeded)
    if live:
        database.write(owner_trusts.retire, live)
    yield from old


def delete(database: Database, trusts: Trusts, trust_id: str) -> bool:
    """Delete a trust in Keystone, then its row; what another manager has deleted is fine.

    :returns: False if a lease needs it by now
    :raises climate_core.exceptions.Transient: try again later
    :raises climate_core.exceptions.Permanent: Keystone does not let the service
    """
    if not database.read(owner_trusts.is_unneeded, trust_id):
        return False
    trusts.delete(trust_id)
    database.write(owner_trusts.delete, trust_id)
    return True
