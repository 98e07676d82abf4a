# SPDX-License-Identifier: Apache-2.0
"""Extend nova-scheduler: hosts that can hold reservations, and the pool of reserved hosts.

In its nova.conf, beside the filters that are there::

    [filter_scheduler]
    available_filters = nova.scheduler.filters.all_filters
    available_filters = nova_ext.scheduler.ReservationFilter
    available_filters = nova_ext.scheduler.PoolFilter
    enabled_filters = ComputeFilter, ..., ReservationFilter, PoolFilter
"""

from nova_ext.scheduler.filters import PoolFilter, ReservationFilter

__all__ = ['PoolFilter', 'ReservationFilter']
