# SPDX-License-Identifier: Apache-2.0
import dataclasses
import uuid

import pytest

from climate_common import resource_types
from climate_core import exceptions
from climate_core.plugins import volume_end
from climate_core.plugins.base import PollAgain
from tests.conformance.world import reserved
from tests.support.fakes import cinder
from tests.unit.plugins.cases import (
    asked,
    attached,
    change,
    reject_for_an_hour,
    status,
    without_rights,
    woken,
)

#: (end action, status before) -> (what Cinder is asked for, in order; status after)
ENDS = {
    ('delete', 'available'): (['delete'], None),
    ('delete', 'error'): (['delete'], None),
    ('delete', 'error_extending'): (['delete'], None),
    ('delete', 'error_deleting'): (['os-reset_status', 'delete'], None),
    ('delete', 'error_backing-up'): (['os-reset_status', 'delete'], None),
    ('delete', 'error_detaching'): (['os-reset_status', 'delete'], None),
    ('backup', 'available'): (['backup', 'delete'], None),
    ('snapshot', 'available'): (['snapshot'], 'available'),
    ('detach', 'available'): ([], 'available'),
    ('detach', 'error'): ([], 'error'),
    ('detach', 'error_deleting'): ([], 'error_deleting'),
    ('detach', 'maintenance'): ([], 'maintenance'),
    ('detach', 'awaiting-transfer'): ([], 'awaiting-transfer'),
    ('nothing', 'available'): ([], 'available'),
    ('nothing', 'in-use'): ([], 'in-use'),
    ('nothing', 'error'): ([], 'error'),
    ('nothing', 'detaching'): ([], 'detaching'),
}
COPYING = ['backup', 'snapshot']


@pytest.mark.parametrize(('on_end', 'before'), sorted(ENDS))
def test_the_way_to_the_end(volumes, on_end, before):
    case = woken(volumes, on_end, status=before)
    case.end()
    assert (asked(case), status(case)) == ENDS[on_end, before]


@pytest.mark.parametrize(
    'before',
    ['backing-up', 'uploading', 'retyping', 'extending', 'restoring-backup', 'deleting', 'new'],
)
@pytest.mark.parametrize('on_end', sorted(volume_end.STEPS))
def test_a_volume_on_its_way_is_waited_for(volumes, on_end, before):
    case = woken(volumes, on_end, status=before)
    assert isinstance(case.end_once(), PollAgain)
    assert asked(case) == []


@pytest.mark.parametrize('before', ['error', 'error_restoring', 'error_deleting'])
@pytest.mark.parametrize('on_end', COPYING)
def test_the_data_of_a_broken_volume_is_not_thrown_away(volumes, on_end, before):
    case = woken(volumes, on_end, status=before)
    with pytest.raises(exceptions.Transient, match='cannot be kept'):
        case.end_once()
    assert asked(case) == []


@pytest.mark.parametrize('before', ['error', 'error_restoring'])
@pytest.mark.parametrize('on_end', resource_types.ON_END[resource_types.VOLUME])
def test_a_broken_volume_that_was_never_there_is_deleted(volumes, on_end, before):
    case = reserved(volumes, on_end=on_end)
    change(case, status=before)
    case.end()
    assert asked(case) == ['delete']


def test_a_broken_member_that_was_noted_as_awake_was_there(volumes):
    """Heat wakes it. Cinder, unlike Nova, does not tell whether there was ever data in it."""
    case = woken(volumes, 'backup', status='error')
    params = {**case.reservation.params, 'stack_id': str(uuid.uuid4())}
    case.reservation = dataclasses.replace(case.reservation, params=params)
    with pytest.raises(exceptions.Transient, match='cannot be kept'):
        case.end_once()
    assert asked(case) == []


@pytest.mark.parametrize('on_end', resource_types.ON_END[resource_types.VOLUME])
def test_one_that_was_never_there_and_could_not_be_deleted(volumes, on_end):
    """Nobody wants to keep what is left of it."""
    case = reserved(volumes, on_end=on_end)
    change(case, status='error', delete_failures=1)
    with pytest.raises(exceptions.Transient, match='could not delete'):
        case.end()
    case.end()
    assert (asked(case), status(case)) == (['delete', 'os-reset_status', 'delete'], None)


def test_a_broken_volume_that_is_taken_out_was_there(volumes):
    """It is not active any more, and its data is what its owner wants to keep."""
    case = woken(volumes, 'detach', status='error')
    case.reservation = dataclasses.replace(
        case.reservation, status='deleting', woken_at=case.lease.start_date
    )
    case.end()
    assert (asked(case), status(case)) == ([], 'error')


@pytest.mark.parametrize(
    ('on_end', 'wanted'), [('detach', ['detach']), ('nothing', []), ('snapshot', ['detach'])]
)
def test_a_broken_volume_that_a_server_has_was_there(volumes, on_end, wanted):
    case, _ = attached(volumes, on_end)
    case.reservation = dataclasses.replace(case.reservation, status='pending')
    change(case, status='error')
    volumes.fault('DELETE', 'os-volume_att', 400)
    if wanted:
        with pytest.raises(exceptions.Transient, match='400'):
            case.end_once()
    else:
        assert case.end_once() is None
    assert asked(case) == []


@pytest.mark.parametrize('on_end', ['backup', 'detach'])
def test_a_volume_whose_start_was_not_noted(volumes, on_end):
    """Woken by hand, or by a manager that died before it wrote that down."""
    case = reserved(volumes, on_end=on_end)
    case.wake()
    assert case.reservation.status == 'pending'
    case.end()
    assert asked(case) == {'backup': ['backup', 'delete'], 'detach': []}[on_end]


@pytest.mark.parametrize('on_end', ['delete', 'nothing'])
def test_a_creation_is_waited_for(volumes, on_end):
    case = reserved(volumes, on_end=on_end)
    assert isinstance(case.wake_once(), PollAgain)
    assert isinstance(case.end_once(), PollAgain)
    case.end()
    left = {'delete': (['delete'], None), 'nothing': ([], 'available')}
    assert (asked(case), status(case)) == left[on_end]


def test_a_creation_that_never_ends(volumes):
    case = reserved(volumes)
    change(case, status='creating', next=[])
    for _ in range(3):
        assert isinstance(case.end_once(), PollAgain)
    assert asked(case) == []
    case.time.forward(3600)
    case.end()
    assert asked(case) == ['os-force_delete']


def test_a_volume_that_is_written_anew_is_not_broken_off(volumes):
    """It is ``downloading`` when its image is changed, too (cinder/volume/api.py reimage)."""
    case = woken(volumes, 'detach', status='downloading')
    for _ in range(5):
        assert isinstance(case.end_once(), PollAgain)
        case.time.forward(3600)
    assert asked(case) == []


def test_an_administrators_maintenance_is_told(volumes):
    case = woken(volumes, status='maintenance')
    with pytest.raises(exceptions.Transient, match='maintenance'):
        case.end_once()


def test_an_offer_to_another_project_is_taken_back(volumes):
    case, other = woken(volumes, status='awaiting-transfer'), cinder.add(volumes.state)
    for key, volume_id in {'a': other['id'], 'b': case.resource_id}.items():
        transfer = {'id': key, 'volume_id': volume_id, 'project_id': 'demo-id'}
        volumes.state.put('transfers', transfer, {'what': 'transfer create', 'id': key})
    case.end()
    assert asked(case) == ['delete']
    assert list(volumes.state.transfers) == ['a']


def test_an_offer_that_cannot_be_found(volumes):
    case = woken(volumes, status='awaiting-transfer')
    for _ in range(2):
        assert isinstance(case.end_once(), PollAgain)
    case.time.forward(600)
    assert case.end_once().repair == 'reset_status'
    case.end()
    assert asked(case) == ['os-reset_status', 'delete']


@pytest.mark.parametrize('trusted', [True, False])
def test_a_volume_that_was_given_away_is_left_alone(volumes, trusted):
    case = woken(volumes, project_id='other-id')
    if not trusted:
        without_rights(case)
    assert case.end_once() is None
    assert asked(case) == []


def test_a_deletion_that_failed_is_told_and_tried_again(volumes):
    case = woken(volumes, delete_failures=1)
    with pytest.raises(exceptions.Transient, match='could not delete'):
        case.end()
    assert isinstance(case.end_once(), PollAgain)
    case.end()
    assert asked(case) == ['delete', 'os-reset_status', 'delete']


def test_a_volume_that_is_busy_comes_back(volumes):
    case = woken(volumes)
    case.end_once()
    change(case, status='available', next=[])
    with pytest.raises(exceptions.Transient, match='could not delete'):
        case.end_once()
    case.end()
    assert asked(case) == ['delete', 'delete']


@pytest.mark.parametrize('trusted', [True, False])
def test_the_snapshots_of_the_user_are_not_ours_to_delete(volumes, trusted):
    case = woken(volumes)
    if not trusted:
        without_rights(case)
    snapshot = {
        'id': 's',
        'status': 'available',
        'volume_id': case.resource_id,
        'project_id': 'demo-id',
    }
    volumes.state.put('snapshots', snapshot, {'what': 'snapshot create', 'id': 's'})
    with pytest.raises(exceptions.Transient, match='which Climate does not delete'):
        case.end_once()
    assert asked(case) == []
    volumes.state.snapshots.clear()
    case.end()
    assert asked(case) == ['delete']


def test_something_else_is_not_found(volumes):
    """Only the volume itself tells that it is gone."""
    case = woken(volumes)
    volumes.fault('DELETE', '/volumes', 404)
    assert isinstance(case.end_once(), PollAgain)
    case.end()
    assert asked(case) == ['delete']


@pytest.mark.parametrize(
    ('on_end', 'usual', 'after'),
    [('backup', 'delete', (['delete'], None)), ('snapshot', 'detach', ([], 'available'))],
)
def test_copy_that_cinder_forbids_for_an_hour_is_left_out(volumes, on_end, usual, after):
    case = woken(volumes, on_end, status='available')
    volumes.fault('POST', f'/{on_end}s', 403, count=3)
    reject_for_an_hour(case, 'Cinder answered 403')
    wait = case.end_once()
    assert wait is None or wait.reason == (
        f'Cinder rejects the end action {on_end}, so the usual one is done, {usual}: '
        'Cinder answered 403: A fault that the test ordered.'
    )
    assert (wait is None) == (usual == 'detach')
    case.end()
    assert (asked(case), status(case)) == after


@pytest.mark.parametrize('on_end', COPYING)
def test_copy_that_the_state_does_not_allow_is_tried_for_ever(volumes, on_end):
    case = woken(volumes, on_end, status='available')
    volumes.fault('POST', f'/{on_end}s', 400, count=5)
    rejected = 0
    while rejected < 5:
        try:
            assert case.end_once() is not None
        except exceptions.Transient as exc:
            rejected += 'Cinder answered 400' in str(exc)
    case.end()
    assert on_end in asked(case)
