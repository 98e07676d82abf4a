# SPDX-License-Identifier: Apache-2.0
"""What a create returns."""

from climate_core.lease.views import CreatedLease


def get_id(created: CreatedLease) -> str:
    """Return the id of the lease of a create."""
    return created if isinstance(created, str) else str(created['id'])
