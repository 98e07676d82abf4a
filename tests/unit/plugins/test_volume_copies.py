# SPDX-License-Identifier: Apache-2.0
"""The copies that are made of a volume at its end."""

import pytest

from climate_core import exceptions
from climate_core.plugins.base import PollAgain
from tests.unit.plugins.cases import asked, attached, change, status, without_rights, woken

COPYING = ['backup', 'snapshot']


@pytest.mark.parametrize('on_end', COPYING)
def test_the_copy_has_a_name_and_is_made_once(volumes, on_end):
    case = woken(volumes, on_end)
    for _ in range(2):
        case.end_once(volumes.plugin())
    case.end()
    (copy,) = getattr(volumes.state, f'{on_end}s').values()
    assert copy['name'].startswith('reserved_v-')
    assert copy['project_id'] == 'demo-id'
    assert case.reservation.id in copy['description']


@pytest.mark.parametrize(
    ('name', 'called'), [('x' * 255, 'reserved_' + 'x' * 246), (None, 'reserved_{id}')]
)
def test_the_name_of_a_copy_fits(volumes, name, called):
    case = woken(volumes, 'backup', name=name)
    case.end_once()
    (copy,) = volumes.state.backups.values()
    assert copy['name'] == called.format(id=case.resource_id)


@pytest.mark.parametrize('on_end', COPYING)
def test_the_copies_of_others_do_not_count(volumes, on_end):
    case = woken(volumes, on_end)
    table = f'{on_end}s'
    for key, metadata in {'a': {}, 'b': None, 'c': {'climate_reservation_id': 'x'}}.items():
        copy = {
            'id': key,
            'status': 'available',
            'volume_id': case.resource_id,
            'project_id': 'demo-id',
            'metadata': metadata,
        }
        volumes.state.put(table, copy, {'what': 'copy create', 'id': key})
    case.end_once()
    assert asked(case) == [on_end]


@pytest.mark.parametrize(
    ('on_end', 'reason', 'after'),
    [
        ('backup', 'object store is full', ['delete']),
        ('snapshot', 'reports no reason', []),
    ],
)
def test_a_copy_that_failed_is_told_and_made_again(volumes, on_end, reason, after):
    case = woken(volumes, on_end, **{f'{on_end}_failures': 1})
    with pytest.raises(exceptions.Transient, match=reason):
        case.end()
    assert status(case) == 'available'
    assert getattr(volumes.state, f'{on_end}s') == {}
    case.end()
    assert asked(case) == [on_end, on_end, *after]


@pytest.mark.parametrize('status_code', [404, 400, 503])
def test_copy_that_failed_is_told_even_if_it_cannot_be_deleted_then(volumes, status_code):
    """With 404 Cinder answers that it has no cinder-backup, too."""
    case = woken(volumes, 'backup', backup_failures=1)
    volumes.fault('DELETE', '/backups/', status_code)
    with pytest.raises(exceptions.Transient) as caught:
        case.end()
    (backup,) = volumes.state.backups.values()
    told = str(caught.value)
    assert 'could not create the backup of the volume: The object store is full. ' in told
    assert f'failed backup {backup["id"]} could not be deleted: ' in told
    assert f' {status_code}: ' in told
    # It is deleted when that is possible, and another one is made only then.
    with pytest.raises(exceptions.Transient, match='object store is full'):
        case.end()
    assert asked(case) == ['backup']
    assert volumes.state.backups == {}
    case.end()
    assert asked(case) == ['backup', 'backup', 'delete']


def test_a_failed_copy_that_cannot_be_deleted(volumes):
    case = woken(volumes, 'backup')
    case.end_once()
    change(case, status='available', next=[])
    (backup,) = volumes.state.backups.values()
    backup['status'] = 'error_deleting'
    with pytest.raises(exceptions.Transient, match=backup['id']):
        case.end_once()
    assert asked(case) == ['backup']


def test_backup_that_a_user_deletes_does_not_count(volumes):
    case = woken(volumes, 'backup')
    case.end_once()
    change(case, status='available', next=[])
    (backup,) = volumes.state.backups.values()
    backup['status'] = 'deleting'
    assert isinstance(case.end_once(), PollAgain)
    assert asked(case) == ['backup']


@pytest.mark.parametrize(('on_end', 'busy'), [('backup', 'restoring'), ('snapshot', 'backing-up')])
def test_a_copy_that_is_used_counts(volumes, on_end, busy):
    case = woken(volumes, on_end)
    case.end_once()
    (copy,) = getattr(volumes.state, f'{on_end}s').values()
    copy['status'] = busy
    change(case, status='available', next=[])
    case.end()
    assert asked(case) == {'backup': ['backup', 'delete'], 'snapshot': ['snapshot']}[on_end]


def test_copy_that_a_user_deleted_is_made_again(volumes):
    case = woken(volumes, 'snapshot')
    case.end_once()
    volumes.state.snapshots.clear()
    with pytest.raises(exceptions.Transient, match='deleted before it was complete'):
        case.end_once()
    case.end()
    assert asked(case) == ['snapshot', 'snapshot']


def test_the_project_may_have_no_more_backups(volumes):
    case = woken(volumes, 'backup')
    volumes.fault('POST', '/backups', 413)
    with pytest.raises(exceptions.Transient, match='413'):
        case.end_once()
    case.end()
    assert asked(case) == ['backup', 'delete']


@pytest.mark.parametrize('before', ['error', 'error_deleting'])
def test_a_broken_volume_whose_backup_is_complete_is_deleted(volumes, before):
    case = woken(volumes, 'backup')
    case.end_once()
    change(case, status=before, next=[])
    (backup,) = volumes.state.backups.values()
    backup['status'] = 'available'
    case.end()
    assert asked(case)[-1] == 'delete'
    assert len(volumes.state.backups) == 1


@pytest.mark.parametrize('before', ['error', 'error_deleting'])
def test_a_broken_volume_whose_snapshot_is_complete_stays(volumes, before):
    case = woken(volumes, 'snapshot')
    case.end()
    change(case, status=before)
    assert case.end_once() is None
    assert asked(case) == ['snapshot']


def test_a_backup_with_the_rights_of_the_service(volumes):
    """One that was begun with the owner's is found."""
    case = woken(volumes, 'backup')
    case.end_once()
    without_rights(case)
    case.end()
    assert asked(case) == ['backup', 'delete']
    assert [backup['project_id'] for backup in volumes.state.backups.values()] == ['demo-id']


def test_no_snapshot_in_the_project_of_the_service(volumes):
    """It would keep the owner from deleting the volume, which is kept anyway."""
    case, _ = attached(volumes, 'snapshot')
    without_rights(case)
    case.end()
    assert asked(case) == ['detach']
    assert status(case) == 'available'


def test_a_broken_volume_is_not_kept_without_a_snapshot(volumes):
    case = woken(volumes, 'snapshot', status='error')
    without_rights(case)
    with pytest.raises(exceptions.Transient, match='cannot be kept'):
        case.end_once()
