# SPDX-License-Identifier: Apache-2.0
"""Limit how many threads wait for Nova, Cinder or Heat, so that some stay free.

A user's request to reserve a resource makes the lease service ask Nova, Cinder or Heat. These may
wait for the lease service at the same moment, with the requests of their extensions. If users'
requests took all threads, each side would wait for the other until it gave up.
"""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from climate_common import resource_types
from climate_core import exceptions

if TYPE_CHECKING:
    from climate_core.context import RequestContext

#: Seconds that a request waits for its turn, in which it keeps one more thread busy.
TURN_SECONDS = 0.25
#: The kind of lease for which hosts are emptied, see ``climate_core.lease.states.LeaseKind``.
_EMPTIES: Final = 'best_effort'


def _asks(values: Mapping[str, Any]) -> bool:
    """Tell whether another service is asked for what a lease, or a reservation, reserves."""
    listed = [values] if 'resource_type' in values else values.get('reservations') or ()
    promised = all(each['resource_type'] in resource_types.PROMISED for each in listed)
    return bool(listed) and (not promised or values.get('kind') == _EMPTIES)


class ReservingLimit:
    """Limit how many requests of users reserve resources in this process at once.

    :param most: None for no limit
    """

    def __init__(self, most: int | None) -> None:
        self._free = threading.Semaphore(most) if most else None

    @contextlib.contextmanager
    def turn(self, context: 'RequestContext', values: Mapping[str, Any]) -> Iterator[None]:
        """Count a request while it is worked on.

        A service that reserves what it builds is not counted: of servers and volumes it says what
        they hold, and Heat answers for a stack before it builds the first member. Nor is what the
        calendar promises alone, unless hosts may have to be emptied for it.

        :param values: of a new lease, or of a reservation
        :raises climate_core.exceptions.ServiceBusy: there are too many, and none ends in time
        """
        if self._free is None or not _asks(values) or context.by_service:
            yield
            return
        if not self._free.acquire(timeout=TURN_SECONDS):
            raise exceptions.ServiceBusy(
                'Too many requests are waiting for Nova, Cinder or Heat. Try again in a second.'
            )
        try:
            yield
        finally:
            self._free.release()
