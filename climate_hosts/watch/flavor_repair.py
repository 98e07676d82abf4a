# SPDX-License-Identifier: Apache-2.0
"""Find private flavors of reservations that are no more, and delete them.

A flavor is made after its reservation is written, and deleted before that is over. One without a
reservation was made by a manager that was cut off for so long that the end came first.
"""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from climate_core.cloud import flavors
from climate_core.db import reservations
from climate_core.db.engine import Database
from climate_core.repair.operator_repair import RepairResult, repair_remote

if TYPE_CHECKING:
    from climate_core.cloud import connections

_CHUNK = 500
#: What is wrong with them.
REASON = 'its reservation is no more'


def find(database: Database, conn: 'connections.Connection') -> Iterator[str]:
    """Yield the ids of flavors whose reservation is over or does not exist."""
    present = flavors.list_reservation_flavors(conn)
    while chunk := {*islice(present, _CHUNK)}:
        yield from sorted(chunk - database.read(reservations.filter_holding, chunk))


def run(database: Database, conn: 'connections.Connection', yes: bool) -> Iterator[RepairResult]:
    """Delete such flavors, or say that it would be done.

    :param yes: whether to do it
    """
    for each in find(database, conn):
        yield repair_remote(f'flavor {each}', REASON, 'delete it', yes, flavors.delete, conn, each)
