# SPDX-License-Identifier: Apache-2.0
"""What Cinder lost is repaired: messages that never arrived, work whose process died."""

import pytest

from climate_core import exceptions
from tests.conformance.world import reserved
from tests.unit.plugins.cases import asked, attached, change, woken


def test_a_wake_up_that_no_cinder_volume_has_begun_is_repeated_within_a_minute(volumes):
    case = reserved(volumes)
    case.wake_once()
    change(case, next=[])
    begin, repaired = case.time.now, None
    while not repaired:
        repaired = case.wake_once().repair
    assert repaired == 'wake_up'
    assert (case.time.now - begin).total_seconds() < 60
    case.wake()
    assert volumes.effects(case.resource_id) == ['os-wake_up', 'os-wake_up']


def test_a_creation_that_goes_on_is_not_told_as_lost(volumes):
    case = reserved(volumes)
    case.wake_once()
    change(case, next=['creating'] * 99)
    for _ in range(20):
        wait = case.wake_once()
        assert (wait.reason, wait.repair) == (None, None)
    assert volumes.wakes(case.resource_id) == 1


@pytest.mark.parametrize(
    ('before', 'repair', 'effects'),
    [
        ('deleting', 'delete', ['os-reset_status', 'delete']),
        ('detaching', 'reset_status', ['os-reset_status', 'detach', 'delete']),
        ('attaching', 'reset_status', ['os-reset_status', 'detach', 'delete']),
    ],
)
def test_what_does_not_change_is_told_then_repaired(volumes, before, repair, effects):
    case, _ = attached(volumes) if before != 'deleting' else (woken(volumes), ())
    change(case, status=before, next=[])
    assert case.end_once().reason is None
    case.time.forward(300)
    assert f'{before} without a change for 5 minutes' in case.end_once().reason
    case.time.forward(300)
    wait = case.end_once()
    assert (wait.repair, 'status was reset' in wait.reason) == (repair, True)
    case.end()
    assert asked(case) == effects


def test_volume_that_still_changes_is_not_lost(volumes):
    case = woken(volumes)
    for minute in range(5):
        change(case, status='deleting', next=[], updated_at=f'2082-12-01T12:0{minute}:00')
        assert case.end_once().repair is None
        case.time.forward(500)
    assert asked(case) == []


def test_where_the_service_lacks_the_right_the_reason_says_what_to_type(volumes):
    case = woken(volumes, status='deleting', next=[])
    case.end_once()
    case.time.forward(600)
    volumes.fault('POST', '/action', 403)
    with pytest.raises(exceptions.Transient, match='must run: openstack volume set --state error'):
        case.end_once()


@pytest.mark.parametrize('on_end', ['backup', 'snapshot'])
def test_a_copy_that_does_not_move_is_told_then_made_again(volumes, on_end):
    case = woken(volumes, on_end)
    case.end_once()
    copy = hang(case, on_end)
    assert case.end_once().reason is None
    case.time.forward(3 * 3600)
    assert f'{on_end} {copy["id"]} has been creating without a change' in case.end_once().reason
    case.time.forward(3 * 3600)
    assert case.end_once().repair == 'reset_copy'
    with pytest.raises(exceptions.Transient, match=f'could not create the {on_end}'):
        case.end_once()
    volumes.state.volumes[case.resource_id]['hangs'] = False
    case.end()
    after = ['delete'] if on_end == 'backup' else []
    assert [each for each in asked(case) if each != 'os-reset_status'] == [
        on_end,
        'reset',
        on_end,
        *after,
    ]


def test_a_backup_that_no_service_has_begun_is_left_and_made_again(volumes):
    case = woken(volumes, 'backup')
    case.end_once()
    left = hang(case, 'backup', unbegun=True)
    for _ in range(2):
        case.end_once()
        case.time.forward(6 * 3600)
        assert case.end_once().repair == 'reset_copy'
    with pytest.raises(exceptions.Transient, match='deleted before it was complete'):
        case.end_once()
    volumes.state.volumes[case.resource_id]['hangs'] = False
    case.end()
    assert left['status'] == 'creating'
    assert asked(case)[-2:] == ['backup', 'delete']


@pytest.mark.parametrize(
    ('before', 'on_end', 'minutes', 'after', 'effects'),
    [
        ('extending', 'delete', 60, 'available', ['os-reset_status', 'delete']),
        ('retyping', 'delete', 360, 'available', ['os-reset_status', 'delete']),
        ('uploading', 'snapshot', 360, 'available', ['os-reset_status', 'snapshot']),
        ('backing-up', 'detach', 360, 'available', ['os-reset_status']),
        ('backing-up', 'backup', 360, 'available', ['os-reset_status', 'backup', 'delete']),
        ('restoring-backup', 'delete', 360, 'error', ['os-reset_status', 'delete']),
        ('reverting', 'detach', 360, 'error', ['os-reset_status']),
        ('downloading', 'nothing', 360, 'error', ['os-reset_status']),
        ('creating', 'delete', 360, 'error', ['os-reset_status', 'delete']),
    ],
)
def test_work_that_does_not_change_is_told_then_reset(
    volumes, before, on_end, minutes, after, effects
):
    case = woken(volumes, on_end, status=before, next=[])
    assert case.end_once().reason is None
    case.time.forward(30 * minutes)
    assert f'{before} without a change' in case.end_once().reason
    case.time.forward(30 * minutes - 60)
    assert (case.end_once().repair, asked(case)) == (None, [])
    case.time.forward(60)
    wait = case.end_once()
    assert (wait.repair, f'reset to {after}' in wait.reason) == ('reset_status', True)
    case.end()
    assert asked(case) == effects


@pytest.mark.parametrize('on_end', ['delete', 'detach'])
def test_work_on_a_volume_that_a_server_has_is_reset_to_in_use(volumes, on_end):
    case, _ = attached(volumes, on_end)
    change(case, status='extending', next=[])
    case.end_once()
    case.time.forward(3600)
    case.end()
    assert asked(case)[:2] == ['os-reset_status', 'detach']


def test_half_restored_data_is_left_to_a_person(volumes):
    case = woken(volumes, 'backup', status='restoring-backup', next=[])
    case.end_once()
    case.time.forward(6 * 3600)
    case.end_once()
    with pytest.raises(exceptions.Transient, match='cannot be kept'):
        case.end_once()
    assert asked(case) == ['os-reset_status']


@pytest.mark.parametrize(
    ('before', 'command'),
    [
        ('uploading', 'openstack volume set --state available'),
        ('retyping', 'cinder reset-state --state available --reset-migration-status'),
        ('restoring-backup', 'openstack volume set --state error'),
    ],
)
def test_where_the_status_of_work_cannot_be_reset_the_reason_says_what_to_type(
    volumes, before, command
):
    case = woken(volumes, status=before, next=[])
    case.end_once()
    case.time.forward(6 * 3600)
    volumes.fault('POST', '/action', 403)
    with pytest.raises(exceptions.Transient, match=f'must run: {command} {case.resource_id}'):
        case.end_once()


def test_a_status_that_nobody_knows_is_told_and_left_to_an_administrator(volumes):
    case = woken(volumes, status='managing', next=[])
    case.end_once()
    case.time.forward(900)
    assert case.end_once().reason == 'The volume has been managing for a long time.'
    case.time.forward(6 * 3600)
    command = f'must run: openstack volume set --state error {case.resource_id}'
    with pytest.raises(exceptions.Transient, match=command):
        case.end_once()
    # It stays in the reason until something changes.
    assert command in case.end_once().reason
    assert asked(case) == []


def test_a_long_limit_is_told_before_its_half(volumes):
    case = woken(volumes, status='uploading', next=[])
    case.end_once()
    case.time.forward(600)
    assert 'uploading for a long time' in case.end_once().reason


def hang(case, kind, **fields):
    """Let no process work on the copy of the volume any more; return it."""
    change(case, next=[], hangs=True)
    (copy,) = getattr(case.world.state, f'{kind}s').values()
    copy.update(fields)
    return copy
