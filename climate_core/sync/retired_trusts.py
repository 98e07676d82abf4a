# SPDX-License-Identifier: Apache-2.0
"""Delete the trusts of owners when no lease needs them any more."""

from collections.abc import Callable, Iterator

from oslo_log import log

from climate_core import exceptions
from climate_core.cloud.trusts import Trusts
from climate_core.db import trusts as db_trusts
from climate_core.db.engine import Database

LOG = log.getLogger(__name__)


def find(database: Database) -> Iterator[str]:
    """Retire what no lease needs; yield the ids of trusts that were retired long enough ago."""
    live, old = database.read(db_trusts.find_unneeded)
    if live:
        database.write(db_trusts.retire, live)
    yield from old


def delete(
    database: Database, trusts: Trusts, trust_id: str, refused: Callable[[], None] = lambda: None
) -> bool:
    """Delete a trust in Keystone, then its row; what another manager has deleted is fine.

    What Keystone refuses to delete is told once, and tried again later and later: after 20
    minutes, and in the end once a day.

    :param refused: called if Keystone refuses it for the first time
    :returns: False if a lease needs it by now, or Keystone refuses
    :raises climate_core.exceptions.Transient: Keystone does not answer; this counts as nothing
    """
    if not database.read(db_trusts.is_unneeded, trust_id):
        return False
    try:
        trusts.delete(trust_id)
    except exceptions.Permanent as exc:
        if database.write(db_trusts.count_rejection, trust_id) == 1:
            refused()
            told = (
                'Keystone does not let the service delete the trust %s, which no lease needs: %s'
            )
            LOG.warning(told, trust_id, exc)
        return False
    database.write(db_trusts.delete, trust_id)
    return True
