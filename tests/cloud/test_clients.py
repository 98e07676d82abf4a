# SPDX-License-Identifier: Apache-2.0
"""The command line and the client of Blazar, on the real cloud."""

import json

from tests.cloud.conftest import Booking, at


def test_openstack_lease_commands(booking: Booking) -> None:
    server = booking.reserve(start=at(hours=1), end=at(hours=2))
    lease = booking.lease_of(server.id)
    person = booking.person
    shown = person.cli('openstack', 'lease', 'show', lease.name, '-f', 'json')
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)['status'] == 'PENDING'
    changed = person.cli('openstack', 'lease', 'set', lease.id, '--extend', '1h')
    assert changed.returncode == 0, changed.stderr
    assert (person.leases.get(lease.id).end_date - lease.end_date).total_seconds() == 3600
    deleted = person.cli('openstack', 'lease', 'delete', lease.id, '--wait')
    assert deleted.returncode == 0, deleted.stderr
    booking.wait_gone(server.id)


def test_blazar_client_works_unchanged(booking: Booking) -> None:
    from blazarclient import client as blazar

    leases = blazar.Client(
        '1', session=booking.person.sdk.session, service_type='reservation'
    ).lease
    server = booking.reserve(start=at(hours=1))
    ours = booking.lease_of(server.id)
    assert ours.id in {lease['id'] for lease in leases.list()}
    assert leases.get(ours.id)['reservations'][0]['resource_id'] == server.id
    changed = leases.update(ours.id, name='renamed', prolong_for='1h')
    assert changed['name'] == 'renamed'
    leases.delete(ours.id)
    booking.wait_gone(server.id)
