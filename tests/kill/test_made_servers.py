# SPDX-License-Identifier: Apache-2.0
"""A manager dies on the way of servers that it makes for a lease."""

import pytest
import sqlalchemy as sa

from climate_core.db import tables
from climate_core.lease import model
from climate_core.lease.events import queue
from tests.kill.deaths import EVENT, check_no_error
from tests.support.databases import ENGINES
from tests.support.fakes import leases

ID = '5d1b7c90-2f3e-4a68-9c1d-0e7f6a5b4c32'
OF_START = '2099-01-01 10:00'


def lease_of_two(stage, flavor='small', start='now'):
    """Return a lease that was just written, of two servers that are to be made."""
    stage.cloud.order('flavors', [{'id': flavor}])
    server = {
        'name': 'web',
        'flavorRef': flavor,
        'count': 2,
        'block_device_mapping_v2': [{'source_type': 'blank', 'boot_index': 0}],
    }
    reservation = {'resource_type': 'virtual:instance', 'server': server}
    wanted = {'id': ID, 'name': 'lease1', 'start_date': start, 'duration': '1h'}
    stage.request({**wanted, 'reservations': [reservation]}).ends()
    return leases.read(stage.database, ID)


def made(lease):
    """Tell whether all that is to be made for a lease is there."""
    return all(each.status == 'DONE' for each in lease.events_of(model.PREPARE))


def check_each_once(stage):
    """Two servers were made, one for each reservation."""
    assert stage.made('server create') == 2
    ids = {each['id'] for each in stage.cloud.journal() if each['what'] == 'server create'}
    assert {each.resource_id for each in leases.read(stage.database, ID).reservations} == ids


def check_none_left(stage):
    assert stage.made('server create') == stage.made('server gone')
    assert stage.made('delete') <= stage.made('server create')


@pytest.mark.parametrize('look', [1, 3, 5])
@pytest.mark.parametrize('point', EVENT)
def test_killed_preparation_makes_each_server_once(stage, point, look):
    lease = lease_of_two(stage, start=OF_START)

    stage.survive(f'{point}:prepare_reservation:{look}')
    stage.until(lambda: made(stage.lease(lease)))

    check_each_once(stage)
    check_no_error(stage.lease(lease))


@pytest.mark.parametrize('number', [1, 2])
def test_after_nova_has_made_one_and_before_that_is_written(stage, number):
    lease = lease_of_two(stage, start=OF_START)

    stage.survive(f'request.after:write:{number}')
    stage.until(lambda: made(stage.lease(lease)))

    check_each_once(stage)


@pytest.mark.parametrize('look', [1, 2, 3])
@pytest.mark.parametrize('point', EVENT)
def test_start_that_waits_for_them(stage, point, look):
    lease = lease_of_two(stage)

    stage.survive(f'{point}:start_lease:{look}')
    stage.until(lambda: stage.lease(lease).status == 'ACTIVE')

    check_each_once(stage)
    check_no_error(stage.lease(lease))
    assert stage.made('wake_up') == 2


@pytest.mark.parametrize('look', [3, 5, 6])
@pytest.mark.parametrize('point', EVENT)
def test_giving_back_when_there_is_no_room(stage, point, look):
    lease = lease_of_two(stage, flavor='none')

    stage.survive(f'{point}:prepare_reservation:{look}')
    stage.until(lambda: gave_back(stage.lease(lease)))

    after = stage.lease(lease)
    assert (after.status, {each.status for each in after.reservations}) == ('ERROR', {'error'})
    assert 'No valid host' in after.status_reason
    check_none_left(stage)


@pytest.mark.parametrize('look', [3, 4, 5, 6])
@pytest.mark.parametrize('point', EVENT)
def test_waiting_again_when_there_is_no_room(stage, point, look):
    lease = lease_of_two(stage, flavor='none', start=OF_START)
    # As one that was granted: the cloud of these tests has no forecast.
    granted = sa.update(tables.LEASES).values(kind='retry', retries_left=3, duration=3600)
    stage.database.write(lambda session: session.execute(granted))

    stage.survive(f'{point}:prepare_reservation:{look}')
    stage.until(lambda: waits_for_room(stage.lease(lease)))

    after = stage.lease(lease)
    assert 'No valid host' in after.status_reason
    assert not [each for each in after.reservations if each.is_made]
    check_none_left(stage)


def waits_for_room(lease):
    """Tell whether a lease waits and has freed all that was made, or is asked to be made."""
    return lease.status == 'WAITING' and not queue.is_freeing(lease)


def gave_back(lease):
    return all(each.status == 'ERROR' for each in lease.events_of(model.PREPARE))


@pytest.mark.parametrize('number', [1, 2])
def test_end_after_nova_has_made_one_and_before_that_is_written(stage, number):
    lease = lease_of_two(stage, start=OF_START)

    stage.manager(f'request.after:write:{number}').dies()
    stage.ask('end_lease', ID).ends()
    stage.manager()
    stage.until(lambda: stage.is_over(lease))

    check_none_left(stage)
    assert stage.made('server create') >= number


@pytest.mark.parametrize('stage', ENGINES, indirect=True)
def test_a_death_at_every_remote_call(stage):
    """One manager after the other dies after a call, and leaves its claims behind."""
    lease = lease_of_two(stage, start=OF_START)
    for count in (1, 2, 1):
        stage.manager(f'remote.after:prepare_reservation:{count}', claims_expire=False).dies()
    stage.manager(claims_expire=False)
    stage.until(lambda: made(stage.lease(lease)))
    check_each_once(stage)
