# SPDX-License-Identifier: Apache-2.0
"""Leases start and end while the processes of the cloud are killed at random."""

import collections
import contextlib
import datetime
import random
import time
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from openstack.exceptions import ResourceTimeout

from climateclient import exceptions
from tests.chaos.killer import Say, killing
from tests.chaos.patience import ask
from tests.chaos.reservations import Reservations, Reserved
from tests.cloud.people import Person, at, configured, wait_for

#: Seconds until a lease starts, and until one that is active ends.
STARTS, ENDS = (2, 30), (5, 15)
#: Seconds in which processes are killed, at most until every lease has ended.
KILLING = 90
#: Seconds in which every lease ends, and those in which it leaves no trace, once all run.
HEALING = 240


class Course:
    """The way of leases to their end, as their owner goes it.

    :param made: the leases
    :param chance: chooses the times
    :ivar servers: the ids of the servers in them
    :ivar doubled: the ids of servers of which a lease should have only one, by its name
    """

    def __init__(
        self, reservations: Reservations, made: Reserved, chance: random.Random, say: Say
    ) -> None:
        self.person, self._reservations = reservations.person, reservations
        self.lease_ids, self._made_later = made.leases, made.made_later
        self.servers = set(made.servers)
        self.doubled: dict[str, list[str]] = {}
        self._chance, self._say = chance, say
        self._seen: dict[str, str] = {}

    def start(self) -> None:
        """Let each lease start soon."""
        for lease_id in self.lease_ids:
            start = at(seconds=self._chance.randint(*STARTS))
            self.person.leases.update(lease_id, start=start)

    def has_moved(self) -> bool:
        """Give the leases that have started their end; tell whether one changed since then."""
        found = ask(lambda: list(self.person.leases.list()))
        leases = [each for each in found if each.id in self.lease_ids]
        later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=30)
        for lease in leases:
            if lease.id in self._made_later:
                self._look_for_its_server(lease)
            if lease.status == 'ACTIVE' and lease.end_date > later:
                self._end(lease.id, self._chance.randint(*ENDS))
        before, self._seen = self._seen, {each.id: each.status for each in leases}
        return before != self._seen

    def _look_for_its_server(self, lease: Any) -> None:
        """Note the server that was made; its owner deletes a lease for which none could be."""
        if lease.status == 'ACTIVE':
            held = [each.resource_id for each in lease.reservations]
            self.servers.update(held)
            # It is gone if the lease has ended meanwhile: an answer may take as long as a kill.
            named = ask(lambda: self._reservations.named(lease.name))
            if {*named} - {*held}:
                self.doubled[lease.name] = named
        if lease.status == 'ERROR':
            self._say(f'{lease.id} is deleted: {lease.status_reason}')
            ask(lambda: self.person.leases.delete(lease.id))

    def tell_remaining(self) -> None:
        """Say of each lease that has not ended why, and in which states is what it holds."""
        for lease_id, status in self._seen.items():
            if status == 'TERMINATED':
                continue
            lease = self.person.leases.get(lease_id)
            self._say(f'{lease_id} is {lease.status}: {lease.status_reason}')
            for each in lease.reservations:
                held = f'{each.resource_type} {each.resource_id}'
                self._say(f'  {held} is {each.status}: {each.status_reason}')
                for line in self._reservations.describe(each):
                    self._say(f'    {line}')

    def _end(self, lease_id: str, seconds: int) -> None:
        """Let a lease end soon; the next look does if the service answers later than that."""
        with contextlib.suppress(exceptions.BadRequest):
            ask(lambda: self.person.leases.update(lease_id, end=at(seconds=seconds)))

    def is_over(self) -> bool:
        """Go on; tell whether each lease has ended."""
        if self.has_moved():
            counts = collections.Counter(self._seen.values())
            self._say(', '.join(f'{counts[status]} {status}' for status in sorted(counts)))
        return set(self._seen.values()) == {'TERMINATED'}


def test_leases_start_once_and_end_without_a_trace(
    reservations: Reservations, admin: Person, seed: int, say: Say
) -> None:
    made = reservations.make()
    say(f'{len(made.leases)} leases of {len(made.servers)} servers hold what they reserve')
    course = Course(reservations, made, random.Random(seed), say)
    course.start()
    with killing(seed, say) as killer:
        end = time.monotonic() + KILLING
        wait_for(lambda: course.is_over() or time.monotonic() > end, 'the end', 2 * KILLING)
    say(f'{killer.kills} processes were killed; from now on all run')
    try:
        wait_for(course.is_over, 'each lease TERMINATED', HEALING)
    except ResourceTimeout:
        course.tell_remaining()
        raise
    left: dict[str, list[str]] = {}

    def is_clean() -> bool:
        found = ask(lambda: traces(admin, reservations, course.servers, say))
        left.clear()
        left.update(found)
        return not left

    try:
        wait_for(is_clean, 'nothing left of the leases', HEALING)
    except ResourceTimeout:
        # What is left is all that a report of many tests shows of this one.
        assert left == {}, f'seed {seed}'
        raise
    woken = {each: reservations.woken(each) for each in course.servers}
    assert {each: went for each, went in woken.items() if not is_once(went)} == {}
    assert course.doubled == {}
    say(f'each of {len(woken)} servers was woken once')


def is_once(went: list[str | None]) -> bool:
    """Tell whether a server was started once: none of its starts followed one that succeeded."""
    return bool(went) and 'Success' not in went[:-1] and went[-1] != 'Error'


def traces(
    admin: Person, reservations: Reservations, servers: Iterable[str], say: Say
) -> dict[str, list[str]]:
    """Return the ids of what is left of leases that have ended, by its kind; tell it."""
    found = reservations.left()
    found['trusts'] = trusts(admin, reservations.person)
    found['allocations'] = [each for each in servers if held(admin, each)]
    left = {kind: ids for kind, ids in found.items() if ids}
    if left:
        say(f'left: {left}')
    return left


def held(admin: Person, server_id: str) -> Any:
    """Return what Placement holds for a server."""
    response = admin.sdk.placement.get(f'/allocations/{server_id}', microversion='1.28')
    return response.json()['allocations']


def trusts(admin: Person, person: Person) -> list[str]:
    """Return the ids of the trusts that a user has given the lease service, and that it forgot.

    One that leases shared is kept for an hour after the last of them, then retired, and deleted
    ten minutes later.
    Keystone lists all those of a trustor, whatever trustee is asked for (keystone/api/trusts.py).
    Heat has some for its stacks, and leaves one where Keystone answers 401 for a moment
    (heat/engine/clients/os/keystone/heat_keystoneclient.py ``delete_trust``).
    """
    identity = admin.sdk.identity
    service = identity.find_user('climate', ignore_missing=False)
    query = {'trustor_user_id': person.sdk.current_user_id}
    response = identity.get('/OS-TRUST/trusts', params=query)
    assert response.status_code == 200, response.text
    given = response.json()['trusts']
    with sa.create_engine(configured('database', 'connection')).begin() as database:
        known = {*database.scalars(sa.text('SELECT trust_id FROM owner_trusts'))}
    found = [each['id'] for each in given if each['trustee_user_id'] == service.id]
    return [each for each in found if each not in known]
