# SPDX-License-Identifier: Apache-2.0
"""The part of the Compute API that only Blazar 18 uses, for physical:host leases: aggregates.

Which calls it makes was read in ``blazar/utils/openstack/nova.py`` of the release 18.0.0.
Placement is not there: Blazar asks it only when a host is registered, and the bench writes the
hosts into the database. No host has a server.
"""

import itertools
import time
import uuid
from typing import Any

FREEPOOL = 'freepool'
COMPUTE = r'/compute/v2\.1'


class Aggregates:
    """Nova's host aggregates.

    :param started: aggregate id -> unix time at which it got its first host
    """

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._all: dict[int, dict[str, Any]] = {}
        self._freepool = self._make(FREEPOOL)
        self.started: dict[int, float] = {}

    def _make(self, name: str, zone: str | None = None) -> dict[str, Any]:
        number = next(self._ids)
        self._all[number] = {
            'id': number,
            'uuid': str(uuid.uuid4()),
            'name': name,
            'availability_zone': zone,
            'hosts': [],
            'metadata': {'availability_zone': zone} if zone else {},
            'created_at': '2020-01-01T00:00:00.000000',
            'updated_at': None,
            'deleted_at': None,
            'deleted': False,
        }
        return self._all[number]

    def index(self, request: Any) -> Any:
        return {'aggregates': list(self._all.values())}

    def create(self, request: Any) -> Any:
        wanted = request.body['aggregate']
        return {'aggregate': self._make(wanted['name'], wanted.get('availability_zone'))}

    def show(self, request: Any, number: str) -> Any:
        return {'aggregate': self._all[int(number)]}

    def change(self, request: Any, number: str) -> Any:
        """POST /os-aggregates/{id}/action."""
        found = self._all[int(number)]
        ((action, argument),) = request.body.items()
        if action == 'set_metadata':
            found['metadata'].update(argument['metadata'])
        elif action == 'add_host':
            found['hosts'].append(argument['host'])
            if found is not self._freepool:
                self.started.setdefault(found['id'], time.time())
        else:
            found['hosts'].remove(argument['host'])
        return {'aggregate': found}

    # The bench's own door.

    def set_hosts(self, request: Any) -> Any:
        """``[name]``: let these be the hosts in the aggregate "freepool"."""
        self._freepool['hosts'] = request.body
        return {}

    def add(self, request: Any) -> Any:
        """``[name]``: make aggregates; answers with their ids."""
        return [self._make(name)['id'] for name in request.body]


def routes(aggregates: Aggregates) -> list[tuple[str, str, Any]]:
    """Return what is served: method, path, function of the request and the groups of the path."""
    one = COMPUTE + r'/os-aggregates/(\d+)'
    return [
        ('GET', COMPUTE + '/os-aggregates', aggregates.index),
        ('POST', COMPUTE + '/os-aggregates', aggregates.create),
        ('GET', one, aggregates.show),
        ('POST', one + '/action', aggregates.change),
        ('GET', COMPUTE + '/servers/detail', lambda request: {'servers': []}),
        ('POST', '/fake/hosts', aggregates.set_hosts),
        ('POST', '/fake/aggregates', aggregates.add),
    ]
