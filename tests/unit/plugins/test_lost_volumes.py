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
