# SPDX-License-Identifier: Apache-2.0
"""What is shown of a lease, and what is never shown."""

import dataclasses

from climate_common.resource_types import HOST, SIZES
from climate_core.lease import model, views
from climate_hosts import hosts
from tests.support.leases import NOON, event, lease, reservation


def test_lease_shows_no_trust() -> None:
    shown = views.notified_fields(lease(webhook={'secret': 'sixteen'}))
    assert (shown['start_date'], shown['status']) == ('2082-12-01T12:00:00.000000', 'PENDING')
    assert not {'trust', 'sixteen'} & {str(value) for value in shown.values()}


def test_reservation_shows_params_that_are_not_private() -> None:
    shown = views.common_reservation(reservation(on_end='stop', _tag='x', status='active'))
    assert (shown['on_end'], shown['resource_id'], shown['status']) == ('stop', 'thing', 'active')
    assert '_tag' not in shown


def test_params_never_replace_what_a_reservation_is() -> None:
    params = {'id': 'x', 'status': 'x'}
    one = model.new_reservation('lease', 't', 'thing', params, NOON)
    assert views.common_reservation(one)['id'] == one.id
    assert views.common_reservation(one)['status'] == 'pending'


def test_reservation_of_hosts_shows_what_blazar_clients_read() -> None:
    one = model.new_reservation('lease', HOST, 'thing', {}, NOON, unit_kind=hosts.KIND)
    assert views.common_reservation(one)['before_end'] == 'default'
    asked = dataclasses.replace(one, params={'before_end': 'email'})
    assert views.common_reservation(asked)['before_end'] == 'email'
    room = dataclasses.replace(one, resource_type=SIZES)
    shown = views.common_reservation(room)
    flavor = (shown['flavor_id'], shown['aggregate_id'], shown['server_group_id'])
    assert flavor == (room.id, None, None)


def test_event_shows_no_claim() -> None:
    shown = views.common_event(event(lease(), model.START))
    assert set(shown) == {'id', 'event_type', 'time', 'status', 'status_reason'}
