# SPDX-License-Identifier: Apache-2.0
"""Filter the hosts of nova-scheduler: only some can hold reservations.

A nova-compute without the extension would start the server at once. In nova.conf of the
scheduler, beside the filters that are there::

    [filter_scheduler]
    available_filters = nova.scheduler.filters.all_filters
    available_filters = nova_ext.scheduler.ReservationFilter
    enabled_filters = ComputeFilter, ..., ReservationFilter
"""

from collections.abc import Iterable
from typing import Any

from nova.scheduler import filters

from climateclient.extension import hints

#: Set by the resource tracker of a nova-compute with the extension.
STAT = 'climate_reservation'


class ReservationFilter(filters.BaseHostFilter):
    """Pass hosts that report the extension to reservations; filter nothing for other requests."""

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
        return bool((host_state.stats or {}).get(STAT))
