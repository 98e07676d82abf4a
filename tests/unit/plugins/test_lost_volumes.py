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


def test_what_moves_is_not_lost(volumes):
    case = woken(volumes)
    for minute in range(5):
        change(case, status='deleting', next=[], updated_at=f'2026-12-01T12:0{minute}:00')
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
    with pytest.raises(exceptions.Transient, match=f'could not make the {on_end}'):
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
    with pytest.raises(exceptions.Transient, match='gone before it was complete'):
        case.end_once()
    volumes.state.volumes[case.resource_id]['hangs'] = False
    case.end()
    assert left['status'] == 'creating'
    assert asked(case)[-2:] == ['backup', 'delete']


def test_a_backup_of_its_user_is_waited_for(volumes):
    case = woken(volumes, 'backup', status='backing-up', next=[])
    for _ in range(3):
        assert case.end_once().repair is None
        case.time.forward(6 * 3600)
    assert asked(case) == []


def hang(case, kind, **fields):
    """Let no process work on the copy of the volume any more; return it."""
    change(case, next=[], hangs=True)
    (copy,) = getattr(case.world.state, f'{kind}s').values()
    copy.update(fields)
    return copy
