# SPDX-License-Identifier: Apache-2.0
"""The two filters that nova.conf names."""

from collections.abc import Iterable
from typing import Any

from nova.scheduler import filters

from climateclient.extension import hints
from nova_ext import stats
from nova_ext.scheduler import pool


class ReservationFilter(filters.BaseHostFilter):
    """Pass hosts that report the extension to reserved servers; filter nothing for others.

    A nova-compute without the extension would start the server at once.
    """

    run_filter_once_per_request = True
    RUN_ON_REBUILD = False

    def filter_all(self, filter_obj_list: Iterable[Any], spec_obj: Any) -> Iterable[Any]:
        """Return the hosts that pass; all of them for a request without a reservation."""
        given = spec_obj.scheduler_hints if 'scheduler_hints' in spec_obj else None
        if not hints.wants_reservation(given):
            return filter_obj_list
        return super().filter_all(filter_obj_list, spec_obj)

    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:  # noqa: ARG002
        """Return whether this host reports the extension."""
        return bool((host_state.stats or {}).get(stats.RESERVES))


class PoolFilter(filters.BaseHostFilter):
    """Enable the pool of reserved hosts in this nova-scheduler; pass every host.

    Placement enforces access to the pool, by :func:`nova_ext.scheduler.pool.isolate_pool`:
    a filter sees only hosts that Placement returned, and none where a host is forced. It is a
    filter so that nova.conf alone enables it, and a scheduler that cannot have it does not start.
    """

    run_filter_once_per_request = True
    RUN_ON_REBUILD = False

    def __init__(self) -> None:
        """Add the row to nova's table of request filters.

        :raises climateclient.extension.errors.Incompatible: an extension point is not as expected
        """
        super().__init__()
        pool.install()

    def filter_all(self, filter_obj_list: Iterable[Any], spec_obj: Any) -> Iterable[Any]:  # noqa: ARG002
        """Return all hosts."""
        return filter_obj_list
