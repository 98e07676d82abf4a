# SPDX-License-Identifier: Apache-2.0
"""Filter the pools of cinder-scheduler: only some can hold reservations.

A cinder-volume without the extension would create the volume at once. In cinder.conf of the
scheduler, beside the filters that are there::

    [DEFAULT]
    scheduler_default_filters = AvailabilityZoneFilter,CapacityFilter,CapabilitiesFilter,ReservationFilter
"""  # noqa: E501

from collections.abc import Iterable, Mapping
from typing import Any

from cinder.scheduler import filters

from cinder_ext.capacity import CAPABILITY
from climateclient.extension import hints


class ReservationFilter(filters.BaseBackendFilter):
    """Pass pools that report the extension to reservations; filter nothing for other requests."""

    run_filter_once_per_request = True

    def filter_all(
        self, filter_obj_list: Iterable[Any], filter_properties: Mapping[str, Any]
    ) -> Iterable[Any]:
        """Return the pools that pass; all of them for a request without a reservation."""
        if not hints.wants_reservation(filter_properties.get('scheduler_hints')):
            return filter_obj_list
        return super().filter_all(filter_obj_list, filter_properties)

    def backend_passes(self, host_state: Any, filter_properties: Any) -> bool:  # noqa: ARG002
        """Return whether this pool reports the extension."""
        return host_state.capabilities.get(CAPABILITY) is True
