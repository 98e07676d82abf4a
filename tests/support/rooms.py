# SPDX-License-Identifier: Apache-2.0
"""Rooms that the calendar promises, and a manager that leases them."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_utils import uuidutils
from sqlalchemy import orm

from climate_core.calendar.model import Demand
from climate_core.context import RequestContext
from climate_core.db import sql, tables
from climate_core.lease import model
from climate_core.plugins.base import (
    CalendarBacked,
    Done,
    PollAgain,
    Preemptible,
    ReservedResource,
)
from tests.support.created import get_id
from tests.support.world import World, user

TYPE = 'test:room'


class Suites(CalendarBacked):
    """Whole units of the kind ``room``, which the calendar promises."""

    resource_type = 'test:suite'
    title = 'Rooms'
    description = 'Rooms of the tests'
    schema = {'min': {'type': 'integer'}}
    changeable = ('min',)

    def __init__(self) -> None:
        self.opened: list[str] = []
        #: Ids of reservations whose rooms are still in use when their leases are preempted.
        self.busy: set[str] = set()

    def reserve(
        self, context: RequestContext, values: Mapping[str, Any], lease_id: str = ''
    ) -> ReservedResource:
        params = {'min': values.get('min', 1)}
        made = uuidutils.generate_uuid()
        return ReservedResource(made, params, self.amounts(params), unit_kind='room')

    def amounts(self, params: Mapping[str, Any]) -> Mapping[str, int]:
        return {'hosts': params['min']}

    def read_demand(self, reservation: model.Reservation) -> Demand:
        count = reservation.params['min']
        return Demand(
            kind='room',
            min_pieces=count,
            max_pieces=count,
            reservation_id=reservation.id,
            field='min',
            noun='rooms',
        )

    def start(self, lease: model.Lease, reservation: model.Reservation) -> None:
        assert reservation.allocations
        self.opened.append(lease.name)

    def end(self, lease: model.Lease, reservation: model.Reservation) -> None:
        return None


class Rooms(Suites, Preemptible):
    """Units of the same kind whose leases can be preempted."""

    resource_type = TYPE

    def preempt(self, lease: model.Lease, reservation: model.Reservation) -> PollAgain | Done:
        if reservation.id in self.busy:
            return PollAgain(1.0)
        return Done({'guests': lease.name})


class Hotel:
    """Rooms, and a manager that leases them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rooms = Rooms()
        world.plugins[TYPE] = self.rooms
        world.conf.set_override('retry_interval', 600, group='queue')
        self.poll = world.operations.queue.grant_waiting

    def build(self, count: int) -> None:
        unit = {
            'kind': 'room',
            'pool': 'default',
            'available': True,
            'capacity': {},
            'lanes': 1,
            'properties': {},
            'generation': 0,
            'changed_at': self.world.clock.now(),
        }
        self.world.database.write(sql.insert, tables.UNITS, [unit] * count)

    def book(self, name: str, count: int = 1, project: str = 'project1', **values: Any) -> str:
        """Create a lease of two hours from now, of the kind retry."""
        body = {'name': name, 'duration': '2h', 'kind': 'retry', **values}
        if 'end_date' in body:
            del body['duration']
        body['reservations'] = [{'resource_type': TYPE, 'min': count}]
        # Those of one moment have no order.
        self.world.time.forward(microseconds=1)
        return get_id(self.world.operations.creator.create_lease(user(project), body))

    def status(self, *lease_ids: str) -> list[str]:
        return [self.world.lease(each).status for each in lease_ids]

    def repeat(self, lease_id: str, count: int, projects: int = 0) -> list[str]:
        """Have more leases wait that are as one that does; return their ids in the order.

        :param projects: how many new projects have one after the other; 0: all are of the same
        """
        ids = [uuidutils.generate_uuid() for _ in range(count)]
        self.world.database.write(_repeat, lease_id, ids, projects)
        return ids


def _repeat(session: orm.Session, lease_id: str, ids: Sequence[str], projects: int) -> None:
    """Write copies of a lease, each younger than the one before."""
    (lease,) = session.execute(sa.select(tables.LEASES).filter_by(id=lease_id)).mappings()
    age = datetime.timedelta(microseconds=1)
    sql.insert(
        session,
        tables.LEASES,
        [
            {
                **lease,
                'id': each,
                'created_at': lease['created_at'] + number * age,
                'project_id': f'other{number % projects}' if projects else lease['project_id'],
            }
            for number, each in enumerate(ids, 1)
        ],
    )
    for table in (tables.RESERVATIONS, tables.EVENTS):
        found = session.execute(sa.select(table).filter_by(lease_id=lease_id)).mappings().all()
        unique = {'id', 'resource_id'} & {*table.c.keys()}
        new = [
            {**row, 'lease_id': each, **{key: uuidutils.generate_uuid() for key in unique}}
            for each in ids
            for row in found
        ]
        if new:
            sql.insert(session, table, new)
