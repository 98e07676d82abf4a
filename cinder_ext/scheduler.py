# SPDX-License-Identifier: Apache-2.0
"""A filter of cinder-scheduler: reservations go to backends that can hold them.

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
    """Lets a reservation pass to pools that announce the extension; others see no change."""

    run_filter_once_per_request = True

    def filter_all(
        self, filter_obj_list: Iterable[Any], filter_properties: Mapping[str, Any]
    ) -> Iterable[Any]:
        """Give the pools that are left; all of them, untouched, without a reservation."""
        if not hints.wants_reservation(filter_properties.get('scheduler_hints')):
            return filter_obj_list
        return super().filter_all(filter_obj_list, filter_properties)

    def backend_passes(self, host_state: Any, filter_properties: Any) -> bool:  # noqa: ARG002
        """Whether this pool announces the extension."""
        return host_state.capabilities.get(CAPABILITY) is True
