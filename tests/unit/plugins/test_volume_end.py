# SPDX-License-Identifier: Apache-2.0
import dataclasses

import pytest

from climate_core import exceptions
from climate_core.plugins import volume_end
from climate_core.plugins.base import Wait
from tests.conformance.world import reserved
from tests.fakes import cinder, nova

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


def woken(volumes, on_end='delete', **fields):
    case = reserved(volumes, on_end=on_end)
    case.woken()
    volumes.state.volumes[case.resource_id].update(fields)
    return case


def attached(volumes, on_end='delete', servers=1, **fields):
    case = woken(volumes, on_end)
    made = [nova.add(volumes.state, status='ACTIVE', hints={}) for _ in range(servers)]
    for server in made:
        cinder.attach(volumes.state, case.resource_id, server['id'], **fields)
    return case, made


def shelved(volumes, on_end, **fields):
    """In a server that is off its host; Cinder does not show such an attachment."""
    case, (server,) = attached(volumes, on_end, status='reserved', **fields)
    server['status'] = 'SHELVED_OFFLOADED'
    volumes.state.volumes[case.resource_id]['status'] = 'reserved'
    return case


def asked(case):
    return [each for each in case.world.effects(case.resource_id) if each != 'os-wake_up']


def without_rights(case):
    """The owner's trust is no more."""
    case.lease = dataclasses.replace(case.lease, trust_id=None)


def look(case):
    return case.plugin.end(case.lease, case.reservation)


def status(case):
    volume = case.world.state.volumes.get(case.resource_id)
    return volume and volume['status']


@pytest.mark.parametrize(('on_end', 'before'), sorted(ENDS))
def test_the_way_to_the_end(volumes, on_end, before):
    case = woken(volumes, on_end, status=before)
    case.end()
    assert (asked(case), status(case)) == ENDS[on_end, before]


def test_each_end_action_has_its_steps():
    names = {name for name, _ in volume_end.CHOICES}
    assert set(volume_end.STEPS) == names - {'nothing'}


@pytest.mark.parametrize(
    'before',
    ['backing-up', 'uploading', 'retyping', 'extending', 'restoring-backup', 'deleting', 'new'],
)
@pytest.mark.parametrize('on_end', sorted(volume_end.STEPS))
def test_a_volume_on_its_way_is_waited_for(volumes, on_end, before):
    case = woken(volumes, on_end, status=before)
    assert isinstance(look(case), Wait)
    assert asked(case) == []


@pytest.mark.parametrize('before', ['error', 'error_restoring', 'error_deleting'])
@pytest.mark.parametrize('on_end', COPYING)
def test_the_data_of_a_broken_volume_is_not_thrown_away(volumes, on_end, before):
    case = woken(volumes, on_end, status=before)
    with pytest.raises(exceptions.Transient, match='cannot be kept'):
        look(case)
    assert asked(case) == []


@pytest.mark.parametrize('before', ['error', 'error_restoring'])
@pytest.mark.parametrize('on_end', [name for name, _ in volume_end.CHOICES])
def test_a_broken_volume_that_was_never_there_is_deleted(volumes, on_end, before):
    case = reserved(volumes, on_end=on_end)
    volumes.state.volumes[case.resource_id]['status'] = before
    case.end()
    assert asked(case) == ['delete']


@pytest.mark.parametrize('on_end', [name for name, _ in volume_end.CHOICES])
def test_one_that_was_never_there_and_could_not_be_deleted(volumes, on_end):
    """Nobody wants to keep what is left of it."""
    case = reserved(volumes, on_end=on_end)
    volumes.state.volumes[case.resource_id].update(status='error', delete_failures=1)
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
    volumes.state.volumes[case.resource_id]['status'] = 'error'
    volumes.state.faults.append(
        {'method': 'DELETE', 'path': 'os-volume_att', 'status': 400, 'count': 1}
    )
    if wanted:
        with pytest.raises(exceptions.Transient, match='400'):
            look(case)
    else:
        assert look(case) is None
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
    assert isinstance(case.plugin.wake_up(case.lease, case.reservation), Wait)
    case.end()
    assert asked(case) == {'delete': ['delete'], 'nothing': []}[on_end]


def test_a_creation_that_never_ends(volumes, monkeypatch):
    monkeypatch.setattr(volume_end, '_NEVER', 3)
    case = reserved(volumes)
    volumes.state.volumes[case.resource_id].update(status='creating', next=[])
    for _ in range(3):
        assert isinstance(look(case), Wait)
    assert asked(case) == []
    case.end()
    assert asked(case) == ['os-force_delete']


@pytest.mark.parametrize('before', ['deleting', 'detaching'])
def test_what_hangs_is_told(volumes, monkeypatch, before):
    monkeypatch.setattr(volume_end, '_LONG', 3)
    case = woken(volumes, status=before)
    for _ in range(3):
        assert isinstance(look(case), Wait)
    with pytest.raises(exceptions.Transient, match=before):
        look(case)
    volumes.state.volumes[case.resource_id]['status'] = 'available'
    case.end()


def test_an_administrators_maintenance_is_told(volumes):
    case = woken(volumes, status='maintenance')
    with pytest.raises(exceptions.Transient, match='maintenance'):
        look(case)


def test_an_offer_to_another_project_is_taken_back(volumes):
    case, other = woken(volumes, status='awaiting-transfer'), cinder.add(volumes.state)
    for key, volume_id in {'a': other['id'], 'b': case.resource_id}.items():
        transfer = {'id': key, 'volume_id': volume_id, 'project_id': 'demo-id'}
        volumes.state.put('transfers', transfer, {'what': 'transfer create', 'id': key})
    case.end()
    assert asked(case) == ['delete']
    assert list(volumes.state.transfers) == ['a']


def test_an_offer_that_cannot_be_found(volumes, monkeypatch):
    monkeypatch.setattr(volume_end, '_LONG', 2)
    case = woken(volumes, status='awaiting-transfer')
    for _ in range(2):
        assert isinstance(look(case), Wait)
    with pytest.raises(exceptions.Transient, match='awaiting-transfer'):
        look(case)


@pytest.mark.parametrize('trusted', [True, False])
def test_a_volume_that_was_given_away_is_left_alone(volumes, trusted):
    case = woken(volumes, project_id='other-id')
    if not trusted:
        without_rights(case)
    assert look(case) is None
    assert asked(case) == []


# Detaching.


@pytest.mark.parametrize(
    ('on_end', 'wanted'),
    [
        ('delete', ['detach', 'delete']),
        ('backup', ['detach', 'backup', 'delete']),
        ('snapshot', ['detach', 'snapshot']),
        ('detach', ['detach']),
        ('nothing', []),
    ],
)
def test_a_server_that_goes_on_loses_the_volume(volumes, on_end, wanted):
    case, _ = attached(volumes, on_end)
    case.end()
    assert asked(case) == wanted


def test_a_shared_volume_is_taken_from_one_server_after_the_other(volumes):
    case, _ = attached(volumes, servers=3)
    case.end()
    assert asked(case) == ['detach'] * 3 + ['delete']


def test_what_a_look_at_a_shared_volume_costs(volumes):
    costs = []
    for count in (1, 5):
        case, _ = attached(volumes, servers=count)
        with volumes.counted() as sent:
            look(case)
        # The token of the owner, and three calls.
        costs.append(len([line for line in sent if '/identity' not in line]))
    assert costs == [3, 3]


def test_a_shelved_server_has_the_volume_though_cinder_does_not_show_it(volumes):
    case = shelved(volumes, 'delete')
    case.end()
    assert asked(case) == ['detach', 'delete']


@pytest.mark.parametrize(
    ('on_end', 'wanted', 'left'),
    [
        ('backup', ['detach', 'backup', 'delete'], None),
        ('snapshot', ['detach', 'snapshot'], 'available'),
        ('detach', ['detach'], 'available'),
        ('delete', ['detach'], None),
    ],
)
def test_a_shelved_server_would_take_the_volume_with_it(volumes, on_end, wanted, left):
    """Nova deletes what is detached from such a server, if it was to go with the server."""
    case = shelved(volumes, on_end, delete_on_termination=True)
    case.end()
    assert (asked(case), status(case)) == (wanted, left)
    assert len(volumes.state.backups) == wanted.count('backup')


def test_a_server_that_was_deleted_without_its_attachment(volumes, monkeypatch):
    monkeypatch.setattr(volume_end, '_SURE', 3)
    case, (server,) = attached(volumes)
    volumes.state.drop('servers', server['id'], {'what': 'server lost', 'id': server['id']})
    for _ in range(3):
        assert isinstance(look(case), Wait)
        assert volumes.state.attachments
    look(case)
    assert not volumes.state.attachments
    case.end()
    assert asked(case) == ['delete']


def test_an_attachment_to_a_host_is_cinders_own(volumes):
    case = woken(volumes)
    cinder.attach(volumes.state, case.resource_id, None)
    case.end()
    assert asked(case) == ['delete']


def test_a_server_that_is_being_deleted_is_followed(volumes):
    case, (server,) = attached(volumes)
    server['task_state'] = 'deleting'
    with pytest.raises(exceptions.Transient, match='deleting'):
        look(case)
    cinder.leave_all(volumes.state, server['id'])
    case.end()
    assert asked(case) == ['delete']


def test_a_volume_that_goes_with_its_server(volumes):
    case, (server,) = attached(volumes, delete_on_termination=True)
    cinder.leave_all(volumes.state, server['id'])
    assert look(case) is None
    assert asked(case) == []


def test_the_root_disk_of_a_server_that_goes_on(volumes):
    case, _ = attached(volumes, root=True)
    with pytest.raises(exceptions.Transient, match='root device'):
        look(case)
    assert asked(case) == []


def test_the_server_is_locked(volumes):
    case, (server,) = attached(volumes)
    server['locked'] = True
    with pytest.raises(exceptions.Transient, match='locked'):
        look(case)


def test_a_detachment_that_failed_is_told_and_tried_again(volumes):
    case, (server,) = attached(volumes)
    look(case)
    volumes.state.volumes[case.resource_id].update(status='in-use', next=[])
    with pytest.raises(exceptions.Transient, match=server['id']):
        look(case)
    assert isinstance(look(case), Wait)
    case.end()
    assert asked(case) == ['detach', 'detach', 'delete']


@pytest.mark.parametrize('before', ['in-use', 'reserved'])
def test_in_use_by_nobody(volumes, monkeypatch, before):
    monkeypatch.setattr(volume_end, '_LONG', 1)
    case = woken(volumes, status=before)
    look(case)
    with pytest.raises(exceptions.Transient, match=before):
        look(case)


def test_an_attachment_of_the_old_kind_that_nobody_goes_on_with(volumes, monkeypatch):
    monkeypatch.setattr(volume_end, '_LONG', 2)
    case = woken(volumes, status='attaching')
    case.end()
    assert asked(case) == ['os-unreserve', 'delete']


def test_an_attachment_that_hangs(volumes, monkeypatch):
    monkeypatch.setattr(volume_end, '_LONG', 2)
    case, _ = attached(volumes, status='attaching')
    volumes.state.volumes[case.resource_id]['status'] = 'attaching'
    for _ in range(2):
        assert isinstance(look(case), Wait)
    with pytest.raises(exceptions.Transient, match='attaching'):
        look(case)
    assert asked(case) == []


def test_detaching_with_the_rights_of_the_service(volumes):
    case, _ = attached(volumes)
    without_rights(case)
    case.end()
    entries = [e for e in volumes.state.journal() if e['id'] == case.resource_id]
    assert [e['what'] for e in entries if e.get('as') == 'climate-id'] == ['detach', 'delete']


# Copies.


@pytest.mark.parametrize('on_end', COPYING)
def test_the_copy_has_a_name_and_is_made_once(volumes, on_end):
    case = woken(volumes, on_end)
    for _ in range(2):
        volumes.plugin().end(case.lease, case.reservation)
    case.end()
    (copy,) = getattr(volumes.state, f'{on_end}s').values()
    assert copy['name'].startswith('reserved_v-')
    assert copy['project_id'] == 'demo-id'
    assert case.reservation.id in copy['description']


@pytest.mark.parametrize('on_end', COPYING)
def test_an_answer_that_was_lost(volumes, on_end):
    """Cinder began the copy, but its answer never came."""
    case = woken(volumes, on_end)
    path = f'/{on_end}s$'
    volumes.state.faults.append(
        {'method': 'POST', 'path': path, 'status': 0, 'count': 1, 'after': True}
    )
    with pytest.raises(exceptions.Transient):
        look(case)
    case.end()
    assert asked(case).count(on_end) == 1


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
    look(case)
    assert asked(case) == [on_end]


@pytest.mark.parametrize(
    ('on_end', 'reason', 'after'),
    [
        ('backup', 'object store is full', ['delete']),
        ('snapshot', 'does not say why', []),
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


def test_a_failed_copy_that_cannot_be_deleted(volumes):
    case = woken(volumes, 'backup')
    look(case)
    volumes.state.volumes[case.resource_id].update(status='available', next=[])
    (backup,) = volumes.state.backups.values()
    backup['status'] = 'error_deleting'
    with pytest.raises(exceptions.Transient, match=backup['id']):
        look(case)
    assert asked(case) == ['backup']


def test_a_copy_that_somebody_deleted(volumes):
    case = woken(volumes, 'snapshot')
    look(case)
    volumes.state.snapshots.clear()
    with pytest.raises(exceptions.Transient, match='gone'):
        look(case)
    case.end()
    assert asked(case) == ['snapshot', 'snapshot']


def test_the_project_may_have_no_more_backups(volumes):
    case = woken(volumes, 'backup')
    volumes.state.faults.append({'method': 'POST', 'path': '/backups', 'status': 413, 'count': 1})
    with pytest.raises(exceptions.Transient, match='413'):
        look(case)
    case.end()
    assert asked(case) == ['backup', 'delete']


@pytest.mark.parametrize('before', ['error', 'error_deleting'])
def test_a_broken_volume_whose_backup_is_complete_is_deleted(volumes, before):
    case = woken(volumes, 'backup')
    look(case)
    volumes.state.volumes[case.resource_id].update(status=before, next=[])
    (backup,) = volumes.state.backups.values()
    backup['status'] = 'available'
    case.end()
    assert asked(case)[-1] == 'delete'
    assert len(volumes.state.backups) == 1


def test_a_backup_with_the_rights_of_the_service(volumes):
    """One that was begun with the owner's is found."""
    case = woken(volumes, 'backup')
    look(case)
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


# Deletions.


def test_a_refusal_is_tried_again(volumes):
    """The end frees capacity: it is never given up."""
    case = woken(volumes)
    volumes.state.faults.append(
        {'method': 'DELETE', 'path': '/volumes', 'status': 403, 'count': 1}
    )
    with pytest.raises(exceptions.Transient, match='403'):
        look(case)
    case.end()
    assert asked(case) == ['delete']


def test_a_deletion_is_asked_for_once(volumes):
    case = woken(volumes)
    look(case)
    volumes.state.volumes[case.resource_id]['next'] = []
    assert isinstance(look(case), Wait)
    assert asked(case) == ['delete']


def test_a_deletion_that_failed_is_told_and_tried_again(volumes):
    case = woken(volumes, delete_failures=1)
    with pytest.raises(exceptions.Transient, match='could not delete'):
        case.end()
    assert isinstance(look(case), Wait)
    case.end()
    assert asked(case) == ['delete', 'os-reset_status', 'delete']


def test_a_volume_that_is_busy_comes_back(volumes):
    case = woken(volumes)
    look(case)
    volumes.state.volumes[case.resource_id].update(status='available', next=[])
    with pytest.raises(exceptions.Transient, match='could not delete'):
        look(case)
    case.end()
    assert asked(case) == ['delete', 'delete']


def test_the_snapshots_of_the_user_are_not_ours_to_delete(volumes):
    case = woken(volumes)
    snapshot = {
        'id': 's',
        'status': 'available',
        'volume_id': case.resource_id,
        'project_id': 'demo-id',
    }
    volumes.state.put('snapshots', snapshot, {'what': 'snapshot create', 'id': 's'})
    with pytest.raises(exceptions.Transient, match='snapshots'):
        look(case)
    assert asked(case) == []
    volumes.state.snapshots.clear()
    case.end()
    assert asked(case) == ['delete']


def test_something_else_is_not_found(volumes):
    """Only the volume itself tells that it is gone."""
    case = woken(volumes)
    volumes.state.faults.append(
        {'method': 'DELETE', 'path': '/volumes', 'status': 404, 'count': 1}
    )
    assert isinstance(look(case), Wait)
    case.end()
    assert asked(case) == ['delete']
