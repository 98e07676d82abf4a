# SPDX-License-Identifier: Apache-2.0
"""Where something in Neutron is promised: a cloud, a database and a calendar."""

import contextlib
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

from climate_core.cloud import Cloud
from climate_core.context import RequestContext
from climate_core.lease import model
from climate_core.plugins.calendar_plugin import CalendarPlugin
from tests.support.created import get_id
from tests.support.fakes import cloud_server, settings
from tests.support.world import Time, World, user

END = '2082-12-01 14:00'


class PromisedWorld:
    """A plugin in a manager.

    A subclass registers what is promised, and says what a reservation asks for.

    :param fake: the cloud, which has a fake Neutron
    :param url: of an empty database
    :param connect: has requests to Neutron go somewhere else
    """

    kind: ClassVar[type[CalendarPlugin]]

    def __init__(
        self,
        fake: cloud_server.Server,
        url: str,
        connect: Callable[[Cloud], None] = lambda _cloud: None,
    ) -> None:
        self.state = fake.state
        self.engine = World(url, Time())
        conf = settings.conf(fake.url)
        conf.register_opts(self.kind.options, group=self.kind.resource_type)
        self.cloud = Cloud(conf)
        connect(self.cloud)
        self.operator = RequestContext(user_id='operator', overwrite=False)
        self.plugin = self.kind(conf, self.cloud)
        self.plugin.now = self.engine.time
        self.engine.plugins[self.kind.resource_type] = self.plugin
        self.owner = user('demo-id')

    def asks(self) -> dict[str, Any]:
        """Return what a reservation asks for."""
        return {'resource_type': self.kind.resource_type}

    def lease(
        self, start: str = 'now', end: str = END, kind: str | None = None, **values: Any
    ) -> model.Lease:
        """Create a lease of one reservation, with what is said."""
        body: dict[str, Any] = {'name': start, 'start_date': start, 'end_date': end}
        body |= {'kind': kind} if kind else {}
        body['reservations'] = [self.asks() | values]
        made = get_id(self.engine.operations.creator.create_lease(self.owner, body))
        return self.engine.lease(made)

    def started(self, **values: Any) -> model.Lease:
        return self.engine.settle(self.lease(**values).id)

    def change(self, lease: model.Lease, **values: Any) -> model.Lease:
        (reservation,) = lease.reservations
        self.engine.operations.update_reservation(self.owner, lease.id, reservation.id, values)
        return self.engine.settle(lease.id)

    def ended(self, lease: model.Lease) -> model.Lease:
        self.engine.operations.end_lease(self.owner, lease.id)
        return self.engine.settle(lease.id)

    def asked(self) -> list[str]:
        """Return the methods of the requests to Neutron since the last call."""
        found = [m for m, path, _ in self.state.requests if '/network/v2.0/' in path]
        self.state.requests.clear()
        return found


W = TypeVar('W', bound=PromisedWorld)


@contextlib.contextmanager
def opened(kind: type[W], directory: pathlib.Path) -> Iterator[W]:
    """Run a cloud, and make a world of its own in it."""
    with cloud_server.running(directory / 'journal') as server:
        made = kind(server, f'sqlite:///{directory}/climate.sqlite')
        yield made
        made.engine.database.dispose()
