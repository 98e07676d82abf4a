# SPDX-License-Identifier: Apache-2.0
"""Find what plugins find missing."""

from collections.abc import Sequence

from climate_core.lease.model import Reservation
from climate_core.plugins.base import ResourcePlugin


def find_missing(plugin: ResourcePlugin, reservations: Sequence[Reservation]) -> dict[str, str]:
    """Return what happened to lost resources, by their reservations."""
    return {found.id: reason for found, reason in plugin.reconcile([reservations])}
