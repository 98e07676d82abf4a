# SPDX-License-Identifier: Apache-2.0
"""The part of the Placement API that Climate's leases of hosts use, without any server.

Placement itself would be measured otherwise: the aggregates of Nova that Blazar changes are as
quick. Each host has one lane.
"""

import collections
import threading
import time
from typing import Any

from climate_common import lanes
from tests.support.fakes.state import Refusal

PLACEMENT = '/placement/resource_providers/([^/]+)'
_GENERATION = 'resource_provider_generation'


class Lanes:
    """Lanes, closed until they are opened.

    :ivar started: lane -> unix time at which it was opened for the first time
    """

    def __init__(self) -> None:
        self._generations: collections.Counter[str] = collections.Counter()
        self._parts: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()
        self._of_host: dict[str, str] = {}
        self.started: dict[str, float] = {}

    def add(self, request: Any) -> Any:
        """``{root: lane}``: have these hosts."""
        self._of_host.update(request.body)
        return {}

    def candidates(self, request: Any) -> Any:
        """Return the tree of one host, or those of all hosts of the pools; none has a server."""
        root = request.path.rpartition('in_tree=')[2].partition('&')[0]
        roots = [root] if 'in_tree=' in request.path else list(self._of_host)
        if 'member_of=%21in' in request.path or 'member_of=!in' in request.path:
            roots = []
        summaries: dict[str, Any] = {}
        for each in roots:
            summaries.update(self._tree(each))
        return {'allocation_requests': [], 'provider_summaries': summaries}

    def _tree(self, root: str) -> dict[str, Any]:
        lane = self._of_host.get(root)
        if lane is None:
            return {}
        slot = self._inventories(lane).get(lanes.SLOT, {'total': 1, 'reserved': 1})
        slots = slot['total'] - slot.get('reserved', 0)
        host = {'VCPU': {'capacity': 64, 'used': 0}}
        lane_has = {
            lanes.SLOT: {'capacity': slots, 'used': 0},
            lanes.HOST: {'capacity': 1, 'used': 0},
        }
        found = {root: host, lane: lane_has}
        return {
            each: {'resources': has, 'traits': [], 'root_provider_uuid': root}
            for each, has in found.items()
        }

    def _inventories(self, lane: str) -> Any:
        return self._parts.get((lane, 'inventories'), {})

    def show(self, request: Any, lane: str, part: str) -> Any:
        empty: Any = [] if part == 'aggregates' else {}
        return {_GENERATION: self._generations[lane], part: self._parts.get((lane, part), empty)}

    def change(self, request: Any, lane: str, part: str) -> Any:
        with self._lock:
            if request.body[_GENERATION] != self._generations[lane]:
                raise Refusal(409, 'placement.concurrent_update')
            self._generations[lane] += 1
            self._parts[lane, part] = request.body[part]
            if part == 'inventories' and not request.body[part][lanes.SLOT]['reserved']:
                self.started.setdefault(lane, time.time())
        return self.show(request, lane, part)


def routes(found: Lanes) -> list[tuple[str, str, Any]]:
    """Return what is served: method, path, function of the request and the groups of the path."""
    part = PLACEMENT + '/(aggregates|inventories|usages)'
    return [
        ('GET', '/placement/allocation_candidates', found.candidates),
        ('GET', part, found.show),
        ('PUT', part, found.change),
        ('POST', '/fake/lanes', found.add),
    ]
