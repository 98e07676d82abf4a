# SPDX-License-Identifier: Apache-2.0
"""Machines of a fake cloud that are switched at once, or do not answer."""

from typing import Any

import sqlalchemy as sa
from oslo_config import cfg

from climate_core.db import tables
from climate_core.db.engine import Database
from climate_hosts.db import hosts as host_tables
from climate_hosts.power.drivers import PowerDriver, PowerError
from tests.support.fakes import hypervisors
from tests.support.fakes.state import State


class FakeMachines(PowerDriver):
    """Switch the hypervisors of a fake cloud; those that were added to it are on.

    :ivar state: of the fake cloud
    :ivar switched: what was switched, in order, as ``('cn1', 'off')``
    :ivar silent: the names of those that do not answer
    :ivar dead: the names of those that come on, but their nova-compute does not
    :ivar stubborn: the names of those that do not shut down by themselves
    """

    def __init__(self, conf: cfg.ConfigOpts, state: State) -> None:
        super().__init__(conf)
        self.state = state
        self.switched: list[tuple[str, str]] = []
        self.off: set[str] = set()
        self.unknown: set[str] = set()
        self.silent: set[str] = set()
        self.dead: set[str] = set()
        self.stubborn: set[str] = set()

    def knows(self, name: str) -> bool:
        return name not in self.unknown

    def is_on(self, name: str) -> bool | None:
        if name in self.silent:
            raise PowerError(f'{name} does not answer')
        return name not in self.off

    def switch_on(self, name: str) -> None:
        self.is_on(name)
        self.switched.append((name, 'on'))
        self.off.discard(name)
        if name not in self.dead:
            hypervisors.switch(self.state, name, 'on')

    def switch_off(self, name: str, force: bool) -> None:
        self.is_on(name)
        self.switched.append((name, 'cut' if force else 'off'))
        if force or name not in self.stubborn:
            self.off.add(name)
            hypervisors.switch(self.state, name, 'off')


def read_told(database: Database) -> list[tuple[str, str | None]]:
    """Return the types of what was told, in order, with the names of the hosts."""
    with database.reader() as session:
        row = tables.NOTIFICATIONS.c
        found = session.execute(sa.select(row.event_type, row.payload).order_by(row.id))
        return [(kind, told.get('hypervisor_hostname')) for kind, told in found]


def read_sleeps(database: Database) -> list[tuple[Any, ...]]:
    """Return the names of the hosts that slept, from when and until when."""
    with database.reader() as session:
        row = host_tables.HOST_SLEEPS.c
        query = sa.select(row.hypervisor_hostname, row.start, row.end).order_by(row.id)
        return [tuple(each) for each in session.execute(query)]
