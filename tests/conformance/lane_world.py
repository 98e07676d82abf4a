# SPDX-License-Identifier: Apache-2.0
"""Where plugins promise hosts: a fake Nova, Placement itself, a database and a calendar."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from climate_common import lanes, resource_types
from climate_core.api import reservations as reservation_schemas
from climate_core.api import validation
from climate_core.cloud import placement
from climate_core.context import RequestContext
from climate_core.db import store
from climate_core.lease import model
from climate_core.plugins.base import Done, PollAgain
from climate_hosts import lane_providers
from climate_hosts.plugins.lane_plugin import LanePlugin
from climate_hosts.watch.failures import HostWatch
from tests.support.created import get_id
from tests.support.fakes import hypervisors, nova
from tests.support.fakes import placement as fake_placement
from tests.support.fakes.cloud_server import Server
from tests.support.hosts import EnrolledHosts
from tests.support.world import Time, World

#: The flavor that there is in this cloud.
FLAVOR = {'id': 'm1', 'vcpus': 2, 'ram': 1024, 'disk': 10}


@dataclasses.dataclass(frozen=True)
class Kind:
    """A plugin, and what is asked of it.

    :param wanted: a reservation that one host is enough for
    :param shape: of the servers that may enter; None: any
    :param slots: how many of them may
    :param more: what makes two hosts of it; they are all that there are
    :param too_much: what no two hosts have
    :param bad: what has no meaning -> the field that is blamed
    """

    plugin: type[LanePlugin]
    wanted: Mapping[str, Any]
    shape: str | None
    slots: int
    more: Mapping[str, Any]
    too_much: Mapping[str, Any]
    bad: Sequence[tuple[Mapping[str, Any], str]]


class LaneWorld:
    """The hosts cn1 and cn2 in a pool, and a manager whose time stands still."""

    #: The pool that :meth:`restrict` makes.
    OTHERS = 'theirs'

    def __init__(self, fake: Server, url: str, kind: Kind) -> None:
        self.kind, self.state, self.time = kind, fake.state, Time()
        self.engine = World(url, self.time)
        self.hosts = EnrolledHosts(fake, self.engine.database)
        conf = self.hosts.conf
        conf.register_opts(kind.plugin.options, group=kind.plugin.resource_type)
        self.plugin = kind.plugin(conf, self.hosts.cloud)
        self.plugin.now = self.time
        self.engine.plugins[kind.plugin.resource_type] = self.plugin
        watch = HostWatch(
            conf,
            self.engine.database,
            self.hosts.cloud,
            self.engine.plugins,
            self.engine.calendar,
        )
        self.watch = watch.watch
        user = self.state.users['alice-id']
        token = self.state.token(user, user['project_id'], user['roles'], None)
        self.user = RequestContext(
            auth_token=token,
            user_id=user['id'],
            project_id=user['project_id'],
            roles=user['roles'],
            overwrite=False,
        )

    def ask(self, **values: Any) -> dict[str, Any]:
        """Return the reservation of a request, which asks for what else is said."""
        return {'resource_type': self.plugin.resource_type, **self.kind.wanted, **values}

    def lease(
        self, start: str = 'now', end: str = '2082-12-01 14:00', **values: Any
    ) -> model.Lease:
        """Create a lease, and do no more than that; return it."""
        body = {'name': start, 'start_date': start, 'end_date': end}
        wanted = self.ask(**values)
        shown = {**wanted, 'resource_type': resource_types.api_name(self.plugin.resource_type)}
        validation.check(shown, reservation_schemas.of_plugin(self.kind.plugin), 'reservations[0]')
        body['reservations'] = [wanted]
        return self.engine.lease(
            get_id(self.engine.operations.creator.create_lease(self.user, body))
        )

    def restrict(self, number: int) -> None:
        """Have a host in a pool that is for another project."""
        operations, operator = self.hosts.operations, self.hosts.context
        operations.update_host(operator, self.hosts.ids[number], {'pool': self.OTHERS})
        operations.set_host_pool(operator, self.OTHERS, {'project_ids': ['other-id']})

    def read(self, lease: model.Lease) -> tuple[model.Lease, model.Reservation]:
        """Read a lease, and its one reservation."""
        lease = self.engine.lease(lease.id)
        (reservation,) = lease.reservations
        return lease, reservation

    def wake_up(self, lease: model.Lease) -> PollAgain | None:
        return self.plugin.start(*self.read(lease))

    def reallocate(self, lease: model.Lease) -> PollAgain | None:
        return self.plugin.reallocate(*self.read(lease))

    def preempt(self, lease: model.Lease) -> PollAgain | Done | None:
        return self.plugin.preempt(*self.read(lease))

    def keep(self, lease: model.Lease, progress: Any) -> None:
        """Have the next call know what the last one gave back."""
        _, reservation = self.read(lease)
        kept = dataclasses.replace(reservation, progress=progress)
        self.engine.database.write(store.update_reservations, [(reservation, kept)])

    def end(self, lease: model.Lease) -> PollAgain | None:
        return self.plugin.end(*self.read(lease))

    def hosts_of(self, lease: model.Lease) -> set[str]:
        """Return the names of the hosts that are promised to a lease."""
        _, reservation = self.read(lease)
        return {each.unit['hypervisor_hostname'] for each in reservation.allocations}

    def kept(self) -> dict[str, frozenset[str]]:
        """Return the hosts with a taken lane -> the reservation that has it."""
        found = {}
        for number in range(len(self.hosts.ids)):
            host = self.hosts.read(number)
            for lane_id in host.lane_ids:
                aggregates = lane_providers.read_access(self.hosts.conn, lane_id).aggregates
                if aggregates:
                    found[host.hypervisor_hostname] = aggregates
        return found

    def open(self) -> dict[str, int]:
        """Return the hosts that have an open lane -> how many slots that has."""
        found = {}
        for number in range(len(self.hosts.ids)):
            host = self.hosts.read(number)
            for lane_id in host.lane_ids:
                path = f'/resource_providers/{lane_id}/inventories'
                inventories = placement.PLACEMENT.read(self.hosts.conn, path, 'inventories')
                if inventories[lanes.SLOT]['reserved'] == 0:
                    found[host.hypervisor_hostname] = int(inventories[lanes.SLOT]['total'])
        return found

    def enter(self, lease: model.Lease) -> str:
        """Have a server on the host of a lease, by its lane; return its id."""
        _, reservation = self.read(lease)
        unit = reservation.allocations[0].unit
        lane_id = unit['lane_ids'][reservation.allocations[0].lane]
        server_id = str(nova.add(self.state, status='ACTIVE', hints={})['id'])
        fake_placement.add_server(self.state, unit['provider_id'], server_id, lane_id)
        return server_id

    def deletes(self, server_id: str) -> int:
        """Return how often the deletion of a server was accepted."""
        journal = self.state.journal()
        return sum((each['what'], each['id']) == ('delete', server_id) for each in journal)

    def fail(self, lease: model.Lease) -> str:
        """Have the host of a lease fail; return its name."""
        (name,) = self.hosts_of(lease)
        hypervisors.silence(self.state, name)
        self.watch()
        return name

    def written(self, *calls: Any) -> int:
        """Make calls; return how many requests they sent that change something."""
        self.state.requests.clear()
        for each in calls:
            each()
        return sum(
            method != 'GET' and '/identity' not in path for method, path, _ in self.state.requests
        )
