# SPDX-License-Identifier: Apache-2.0
"""The command lines and clients that people have, on the real cloud."""

import json
import pathlib
import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from climateclient.models import Lease
from tests.cloud.booking import Booking
from tests.cloud.people import Person, at, wait_for

#: What heat's resource can ask of a lease without Blazar's own types of resources. It cannot say
#: when the end is told: with before_end_date, heat 27.0.1 calls python-blazarclient 4.6.0 with an
#: argument that it does not have.
STACK = """
heat_template_version: 2018-08-31
resources:
  lease:
    type: OS::Blazar::Lease
    properties:
      name: NAME
      start_date: "2098-01-01 10:00"
      end_date: "2098-01-01 12:00"
      reservations: []
      events: [{event_type: half_time, time: "2098-01-01 11:00"}]
outputs:
  status: {value: {get_attr: [lease, status]}}
  end: {value: {get_attr: [lease, end_date]}}
"""


@pytest.fixture
def openstack(member: Person) -> Callable[..., Any]:
    """Run a command as the member that must work; give what it printed, read as JSON."""

    def run(*argv: str) -> Any:
        done = member.cli('openstack', *argv, '-f', 'json')
        assert done.returncode == 0, done.stderr
        # Heat's client tells first what happens to the stack.
        return json.loads(re.split(r'^(?=[\[{])', done.stdout, maxsplit=1, flags=re.M)[-1])

    return run


def notified(lease: Lease) -> bool:
    """Tell whether the user of a manual lease knows that it can be started."""
    return any(e.event_type == 'ready_to_start' and e.status == 'DONE' for e in lease.events)


@pytest.fixture
def name(member: Person) -> Iterator[str]:
    """Return the name of a lease, which is deleted afterwards."""
    name = f'lease-{uuid.uuid4().hex[:8]}'
    yield name
    for lease in member.leases.list(name=name):
        member.leases.delete(lease.id, ignore_missing=True)


def test_a_lease_in_a_heat_stack(
    openstack: Callable[..., Any], member: Person, name: str, tmp_path: pathlib.Path
) -> None:
    template = tmp_path / 'stack.yaml'
    template.write_text(STACK.replace('NAME', name))
    stack = openstack('stack', 'create', '-t', str(template), '--wait', name)
    try:
        assert stack['stack_status'] == 'CREATE_COMPLETE'
        (lease,) = member.leases.list(name=name)
        assert 'half_time' in {each.event_type for each in lease.events}
        resource = openstack('stack', 'resource', 'show', name, 'lease')
        assert resource['physical_resource_id'] == lease.id
        assert resource['attributes']['project_id'] == lease.project_id
        status, end = (openstack('stack', 'output', 'show', name, o) for o in ('status', 'end'))
        assert status['output_value'] == 'PENDING'
        assert end['output_value'] == '2098-01-01T12:00:00.000000'
        (checked,) = openstack('stack', 'check', '--wait', name)
        assert checked['Stack Status'] == 'CHECK_COMPLETE'
    finally:
        done = member.cli('openstack', 'stack', 'delete', '-y', '--wait', name)
        assert done.returncode == 0, done.stderr
    assert not [*member.leases.list(name=name, status='PENDING')]


def test_the_life_of_a_lease_by_commands(
    openstack: Callable[..., Any], booking: Booking, name: str
) -> None:
    later = ('--start', '+1h', '--for', '2h')
    assert openstack('lease', 'create', name, *later, '--dry-run')['granted'] is True
    assert openstack('lease', 'list', '--name', name) == []
    server = booking.reserve(start=at(hours=1), name=name)

    def listed(*argv: str) -> list[str]:
        return [each['Name'] for each in openstack('lease', 'list', '--name', name, *argv)]

    assert listed('--resource-type', 'virtual:instance', '--resource-id', server.id) == [name]
    assert listed('--status', 'pending', '--from', '+2h', '--until', '+3h') == [name]
    assert listed('--until', '+30m') == []

    openstack('lease', 'set', name, '--start-policy', 'manual', '--start', 'now')
    lease_id = booking.lease_of(server.id).id
    wait_for(lambda: notified(booking.person.leases.get(lease_id)), 'the user is notified')
    shown = openstack('lease', 'show', name)
    assert (shown['status'], shown['start_policy']) == ('PENDING', 'manual')
    assert 'Waiting' in shown['status_reason']
    assert booking.person.sdk.compute.get_server(server.id).status == 'RESERVED'

    assert openstack('lease', 'start', name, '--wait')['status'] == 'ACTIVE'
    booking.wait(server.id, 'ACTIVE')
    done = booking.person.cli('openstack', 'lease', 'end', name, '--wait')
    assert done.returncode == 0, done.stderr
    booking.wait_gone(server.id)

    actions = [each['Action'] for each in openstack('lease', 'history', name)]
    expected = ('lease.create', 'lease.update', 'event.ready_to_start', 'lease.start', 'lease.end')
    assert [each for each in actions if each in expected] == list(expected)
    usage = openstack('lease', 'usage', '--start', '2026-01-01T00:00Z')
    assert sum(each['Servers used'] for each in usage) > 0
    assert {'leases', 'reserved_servers'} <= {e['Resource'] for e in openstack('lease', 'limits')}
