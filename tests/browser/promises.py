# SPDX-License-Identifier: Apache-2.0
"""Leases of whole hosts that are made without a browser, for pages to show."""

import datetime

from climateclient.models import Lease
from tests.cloud.people import Person

NOW = 'now'


def after(**delta: float) -> datetime.datetime:
    """Return a time from now, in whole minutes."""
    time = datetime.datetime.now(datetime.UTC) + datetime.timedelta(**delta)
    return time.replace(second=0, microsecond=0)


class Promises:
    """The leases of a user's project."""

    def __init__(self, person: Person) -> None:
        self.person = person
        self._leases = person.leases

    def make(
        self, name: str, start: datetime.datetime | str, end: datetime.datetime, hosts: int = 1
    ) -> Lease:
        """Make a lease of so many hosts; return it when it runs, or has to wait for its start."""
        wanted = {'resource_type': 'physical:host', 'min': hosts, 'max': hosts}
        lease = self._leases.create(name, start=start, end=end, reservations=[wanted])
        return self.person.wait_lease(lease.id, 'ACTIVE') if start == NOW else lease

    def queue(self, name: str, start: datetime.datetime, end: datetime.datetime) -> None:
        """Make a lease of one host that waits until there is enough."""
        wanted = {'resource_type': 'physical:host', 'min': 1, 'max': 1}
        self._leases.create(name, start=start, end=end, kind='retry', reservations=[wanted])

    def named(self, name: str) -> Lease:
        """Return the lease of a name; fail if there are none or several."""
        [found] = self._leases.list(name=name)
        return found

    def clean(self) -> None:
        """Delete all leases, and wait until nothing of them is held."""
        found = [each.id for each in self._leases.list()]
        for lease_id in found:
            self._leases.delete(lease_id, ignore_missing=True)
        for lease_id in found:
            self.person.wait_lease_gone(lease_id)
