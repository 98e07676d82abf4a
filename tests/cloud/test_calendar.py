# SPDX-License-Identifier: Apache-2.0
"""What is promised and what is free, as its users see it: in the terminal and in their calendar.

All of it is promised weeks ahead, on a network and a segment of its own, so that it is in nobody's
way.
"""

import dataclasses
import datetime
import json
import subprocess
import uuid
from collections.abc import Iterator
from typing import Any

import icalendar
import pytest

from tests.cloud.booking import Booking
from tests.cloud.networking import PHYSICAL
from tests.cloud.people import Person, at
from tests.cloud.pooling import POOL

ADDRESS, SEGMENT = '198.51.100.9', 290
HOUR = datetime.timedelta(hours=1)


@dataclasses.dataclass(frozen=True)
class Plan:
    """Three leases, an hour each: of an address, then of a segment, then of all hosts.

    :ivar start: when the first begins
    :ivar leases: their ids, by what they are called
    :ivar options: what asks for the same again, each an option and its value
    """

    start: datetime.datetime
    leases: dict[str, str]
    options: dict[str, tuple[str, str]]


@pytest.fixture
def outside(admin: Person) -> Iterator[Any]:
    """Return an external network with an address that is registered."""
    sdk = admin.sdk.network
    name = f'outside-{uuid.uuid4().hex[:8]}'
    network = sdk.create_network(name=name, is_router_external=True)
    others = [{'start': '198.51.100.2', 'end': '198.51.100.4'}]
    sdk.create_subnet(
        network_id=network.id, ip_version=4, cidr='198.51.100.0/28', allocation_pools=others
    )
    apart = admin.client.floatingips.create(network.id, ADDRESS)
    yield network
    admin.client.floatingips.delete(apart.id)
    sdk.delete_network(network)


@pytest.fixture
def segment(admin: Person, member: Person) -> Iterator[int]:
    """Return a VLAN that is registered for the member's project alone."""
    projects = [member.sdk.current_project_id]
    made = admin.client.networks.create('vlan', SEGMENT, PHYSICAL, project_ids=projects)
    yield SEGMENT
    admin.client.networks.delete(made.id)


@pytest.fixture
def plan(booking: Booking, pool: tuple[str, ...], outside: Any, segment: int) -> Iterator[Plan]:
    now = datetime.datetime.now(datetime.UTC).replace(second=0, microsecond=0)
    start = now + datetime.timedelta(days=60)
    net = {'network_name': 'net1', 'physical_network': PHYSICAL, 'segment_id': segment}
    wanted = {
        'address': {
            'resource_type': 'virtual:floatingip',
            'network_id': outside.id,
            'required_floatingips': [ADDRESS],
        },
        'segment': {'resource_type': 'network', **net},
        'hosts': {'resource_type': 'physical:host', 'min': len(pool)},
    }
    leases, made = booking.person.leases, {}
    for number, (what, reservation) in enumerate(wanted.items()):
        begin = start + number * HOUR
        name = f'{what}-{uuid.uuid4().hex[:8]}'
        lease = leases.create(name, begin + HOUR, begin, reservations=[reservation])
        made[what] = lease.id
    options = {
        'address': ('--floating-ips', f'network={outside.name},address={ADDRESS}'),
        'segment': ('--network', f'name=net2,physical_network={PHYSICAL},segment={segment}'),
        'hosts': ('--hosts', 'min=1'),
        'capacity': ('--capacity', 'flavor=m1.tiny,amount=1'),
    }
    yield Plan(start, made, options)
    for each in made.values():
        leases.delete(each)
    for each in made.values():
        booking.person.wait_lease_gone(each)


def shown(person: Person, *command: str) -> Any:
    done = person.cli('openstack', 'lease', *command, '-f', 'json')
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def time(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def test_calendar_shows_the_own_leases_and_operators_the_hosts(
    admin: Person, member: Person, stranger: Person, plan: Plan
) -> None:
    days = ('--days', '92')
    ours = {*plan.leases.values()}
    bars = {row['Lease ID']: row for row in shown(member, 'calendar', *days)}
    names = {what: bars[lease_id]['Resource Names'] for what, lease_id in plan.leases.items()}
    vlan = f'VLAN {SEGMENT} of {PHYSICAL}'
    assert names == {'address': [ADDRESS], 'segment': [vlan], 'hosts': []}
    first = bars[plan.leases['address']]
    assert (time(first['Start']), time(first['End'])) == (plan.start, plan.start + HOUR)

    done = member.cli('openstack', 'lease', 'calendar', *days)
    (row,) = (line for line in done.stdout.splitlines() if vlan in line)
    what, _, status, bar = (cell.strip() for cell in row.split('|')[1:-1])
    assert (what, status) == (f'network {vlan}', 'PENDING')
    assert ({*bar}, bar.count('#')) == ({'.', '#'}, 1)

    listed = shown(admin, 'calendar', '--hosts', *days)
    promised = {row['Host']: {each['lease_id'] for each in row['Bars']} for row in listed}
    assert all(promised[host] & ours == {plan.leases['hosts']} for host in POOL)
    refused = member.cli('openstack', 'lease', 'calendar', '--hosts')
    assert (refused.returncode, '403' in refused.stderr) == (1, True)
    theirs = shown(stranger, 'calendar', *days)
    assert not ours & {row['Lease ID'] for row in theirs}


def test_availability_is_guaranteed_by_the_calendar_and_expected_of_other_hosts(
    member: Person, plan: Plan
) -> None:
    asked = ('availability', '--from', plan.start.isoformat(), '--for', '1h', '--limit', '1')

    def earliest(*options: str) -> tuple[datetime.datetime, bool]:
        (window,) = shown(member, *asked, *options)
        return time(window['Start']), window['Guaranteed']

    found = {what: earliest(*option) for what, option in plan.options.items()}
    assert found == {
        'address': (plan.start + HOUR, True),
        'segment': (plan.start, True),
        'hosts': (plan.start, True),
        'capacity': (plan.start, True),
    }
    every = [word for option in plan.options.values() for word in option]
    assert earliest(*every) == (plan.start + 3 * HOUR, True)
    assert earliest('--servers', 'flavor=m1.tiny,count=2') == (plan.start, False)


def test_feed_stands_in_a_calendar_until_it_is_deleted(booking: Booking) -> None:
    """It is read without a token of Keystone."""
    person = booking.person
    name = f'party-{uuid.uuid4().hex[:8]}'
    lease = person.leases.create(name, at(days=2, hours=1), at(days=2))
    booking.leases.add(lease.id)
    feed = shown(person, 'feed', 'create', f'phone-{name}')
    read = ('curl', '--silent', '--show-error', '--write-out', '%{http_code}', feed['url'])
    text = subprocess.run(read, capture_output=True, text=True, check=True).stdout
    assert text.endswith('200')
    calendar = icalendar.Calendar.from_ical(text.removesuffix('200'))
    (event,) = (each for each in calendar.walk('VEVENT') if each['summary'] == name)
    assert event['uid'] == f'{lease.id}@climate'
    times = [event.decoded(each) for each in ('dtstart', 'dtend')]
    assert times == [each.replace(microsecond=0) for each in (lease.start_date, lease.end_date)]

    done = person.cli('openstack', 'lease', 'feed', 'delete', feed['name'])
    assert done.returncode == 0, done.stderr
    text = subprocess.run(read, capture_output=True, text=True, check=True).stdout
    assert text.endswith('404')
    assert name not in text
