# SPDX-License-Identifier: Apache-2.0
"""Reserve room for so many servers of given sizes, which is Blazar's ``virtual:instance``.

Nova's users choose sizes by a flavor, so the lease service makes one whose id and name are those
of the reservation. It is private to the projects that may enter, and its extra spec
``climate:reservation`` lets nova-scheduler know the reservation without a hint.

Blazar makes its flavor while the user waits for the answer, and what is made there is left behind
when the lease is not written after all. The answer names the flavor, but nobody can boot with it
before the start. So here events make it, which are durable: ``prepare_reservation``, shortly
before the start, and the start, which finds it or makes it. ``flavor_id`` is in the answer from
the beginning, it is the reservation's own id. The end deletes it, when no server is left. Blazar's
server group and aggregate are not needed: which host has room for how many is the calendar's, and
Placement keeps to it; ``server_group_id`` and ``aggregate_id`` are null.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from climate_common import amounts, lanes, resource_types
from climate_core.cloud import flavors
from climate_core.plugins.base import Done, PollAgain
from climate_hosts.plugins.capacity import room

if TYPE_CHECKING:
    from climate_core.context import RequestContext
    from climate_core.lease.model import Lease, Reservation


#: What is kept of the flavor when it was made before the start.
_FLAVOR: Final = 'flavor'


def _size(minimum: int, description: str) -> dict[str, Any]:
    return {
        'type': 'integer',
        'minimum': minimum,
        'maximum': 2**31 - 1,
        'description': description,
    }


class SizesPlugin(room.RoomPlugin):
    """Reserve room for servers of given sizes, with a flavor of its own."""

    resource_type = resource_types.SIZES
    title = 'Capacity by sizes'
    description = (
        'Room for servers of given sizes on hosts of a pool that many leases share. They boot '
        'with the flavor that has the id of the reservation.'
    )
    schema: ClassVar[Mapping[str, Any]] = {
        amounts.VCPUS: _size(1, 'The CPUs of each server.'),
        amounts.MEMORY_MB: _size(1, 'The memory of each server in MiB.'),
        amounts.DISK_GB: _size(0, 'The disk of each server in GiB.'),
        **room.SCHEMA,
    }
    required = (amounts.VCPUS, amounts.MEMORY_MB, amounts.DISK_GB)

    def _read(self, context: 'RequestContext', values: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        return self._params(values)

    def _piece(self, params: Mapping[str, Any]) -> Mapping[str, int]:
        return {unit: params[unit] for unit in self.required}

    def _shape(self, params: Mapping[str, Any]) -> str | None:
        vcpus, memory_mb, disk_gb = (params[unit] for unit in self.required)
        return lanes.shape(vcpus, memory_mb, disk_gb, 0, 0, {})

    def prepare(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | Done | None:
        """Make the flavor, and prepare the lanes, closed."""
        self._make_flavor(lease, reservation)
        prepared = super().prepare(lease, reservation)
        if not isinstance(prepared, Done):
            return prepared
        return Done({**(prepared.progress or {}), _FLAVOR: True})

    def wake_up(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | None:
        """Open a lane of each host to servers of the flavor, which is made if it is missing.

        :raises climate_core.exceptions.Permanent: Nova refuses the flavor, for example because it
            knows no such project in ``share_with``
        """
        prepared = (reservation.progress or {}).get(_FLAVOR)
        # The flavor may have been deleted since: without it no server could enter.
        if not prepared or not flavors.exists(self.cloud.service(), reservation.id):
            self._make_flavor(lease, reservation)
        return super().wake_up(lease, reservation)

    def _make_flavor(self, lease: 'Lease', reservation: 'Reservation') -> None:
        vcpus, memory_mb, disk_gb = (reservation.params[unit] for unit in self.required)
        flavors.create_private(
            self.cloud.service(),
            flavors.PrivateFlavor(reservation.id, vcpus, memory_mb, disk_gb),
            {lanes.EXTRA_SPEC: reservation.id},
            {lease.project_id, *reservation.params.get('share_with', ())},
        )

    def end(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | None:
        """Close the lanes, remove the servers that are in them, then delete the flavor."""
        wait = super().end(lease, reservation)
        if wait is None:
            flavors.delete(self.cloud.service(), reservation.id)
        return wait
