# SPDX-License-Identifier: Apache-2.0
"""Subtract what reserved volumes hold from the reports of cinder-volume to the schedulers.

A backend does not know of a volume that does not exist: each report of its driver would give the
capacity back. Cinder's own count, ``allocated_capacity_gb``, has every volume that has a host.
"""

import copy
import logging
import numbers
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from cinder.db import api as db
from cinder.db import models
from cinder.volume import volume_utils
from sqlalchemy import or_, select

from cinder_ext import reservation_marker

LOG = logging.getLogger(__name__)

#: In every pool: volumes can be reserved here (:class:`cinder_ext.scheduler.ReservationFilter`).
CAPABILITY = 'volume_reservation'


class Reserved(NamedTuple):
    """A volume with a marker.

    :param host: ``host@backend#pool``
    :param size: GiB
    :param made: it is complete on the backend, though it still has its marker
    """

    id: str
    host: str
    size: int
    made: bool


def reserved(context: Any, host: str, cluster: str | None = None) -> list[Reserved]:
    """Return the volumes with a marker on a backend: one SELECT.

    :param host: ``host@backend``
    :param cluster: ``cluster@backend`` if several hosts serve the backend (active-active)
    """
    volume, marker = models.Volume, models.VolumeAdminMetadata
    column, name = (volume.cluster_name, cluster) if cluster else (volume.host, host)
    query = (
        select(volume.id, volume.host, volume.size, volume.launched_at)
        .join(marker, marker.volume_id == volume.id)
        .where(
            marker.key == reservation_marker.STATE,
            marker.deleted.is_(False),
            volume.deleted.is_(False),
            # As cinder.db.api._filter_host at the level of a backend.
            or_(column == name, column.startswith(f'{name}#', autoescape=True)),
        )
    )
    with db.main_context_manager.reader.using(context):
        rows = context.session.execute(query).all()
    # Cinder writes launched_at when a creation ends well, and at no other time.
    return [Reserved(row.id, row.host, row.size, row.launched_at is not None) for row in rows]


def report(capabilities: Mapping[str, Any], volumes: Iterable[Reserved]) -> dict[str, Any]:
    """Return the report for the schedulers.

    :param capabilities: what the driver reports and cinder adds (cinder/volume/manager.py,
        _report_driver_status). It is left as it is, for drivers keep it
    """
    result = copy.deepcopy(dict(capabilities))
    held: Counter[str] = Counter()
    for volume in volumes:
        if not volume.made:
            held[volume_utils.extract_host(volume.host, 'pool', True)] += volume.size
    if result.get('pools'):
        for pool in result['pools']:
            _hold(pool, held[pool['pool_name']])
    else:
        # A driver without pools: cinder makes one of the whole backend.
        _hold(result, held.total())
    return result


def _hold(pool: dict[str, Any], held: int) -> None:
    """Subtract GiB from a report; 'infinite' and 'unknown' stay what they are."""
    pool[CAPABILITY] = True
    if isinstance(pool.get('free_capacity_gb'), numbers.Real):
        pool['free_capacity_gb'] = max(0, pool['free_capacity_gb'] - held)
    # Where a driver does not report it, the scheduler takes what cinder has allocated.
    if isinstance(pool.get('provisioned_capacity_gb'), numbers.Real):
        pool['provisioned_capacity_gb'] += held
