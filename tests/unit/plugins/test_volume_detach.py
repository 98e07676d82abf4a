# SPDX-License-Identifier: Apache-2.0
"""A volume is taken from its servers before its end."""

import pytest

from climate_core import exceptions
from climate_core.plugins import volume_end
from climate_core.plugins.base import PollAgain
from tests.support.fakes import cinder, nova
from tests.unit.plugins.cases import (
    asked,
    attached,
    change,
    shelved,
    status,
    without_rights,
    woken,
)


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


@pytest.mark.parametrize('on_end', ['delete', 'backup'])
def test_attached_again_when_it_was_about_to_be_deleted(volumes, monkeypatch, on_end):
    case = woken(volumes, on_end)
    server = nova.add(volumes.state, status='ACTIVE', hints={})
    delete = volume_end.volumes.delete

    def too_late(conn, volume_id):
        monkeypatch.setattr(volume_end.volumes, 'delete', delete)
        cinder.attach(volumes.state, volume_id, server['id'])
        delete(conn, volume_id)

    monkeypatch.setattr(volume_end.volumes, 'delete', too_late)
    with pytest.raises(exceptions.Transient, match='400'):
        case.end()
    case.end()
    assert asked(case) == [*['backup'] * (on_end == 'backup'), 'detach', 'delete']
    assert len(volumes.state.backups) == (on_end == 'backup')


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


def test_a_server_that_was_deleted_without_its_attachment(volumes):
    case, (server,) = attached(volumes)
    volumes.state.drop('servers', server['id'], {'what': 'server lost', 'id': server['id']})
    for _ in range(3):
        assert isinstance(case.end_once(), PollAgain)
        assert volumes.state.attachments
    case.time.forward(10)
    case.end_once()
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
        case.end_once()
    cinder.leave_all(volumes.state, server['id'])
    case.end()
    assert asked(case) == ['delete']


def test_a_volume_that_goes_with_its_server(volumes):
    case, (server,) = attached(volumes, delete_on_termination=True)
    cinder.leave_all(volumes.state, server['id'])
    assert case.end_once() is None
    assert asked(case) == []


def test_the_root_disk_of_a_server_that_goes_on(volumes):
    case, _ = attached(volumes, root=True)
    with pytest.raises(exceptions.Transient, match=r'root device.* Delete that server, or'):
        case.end_once()
    assert asked(case) == []


def test_the_server_is_locked(volumes):
    case, (server,) = attached(volumes)
    server['locked'] = True
    with pytest.raises(exceptions.Transient, match='locked'):
        case.end_once()


def test_a_detachment_that_failed_is_told_and_tried_again(volumes):
    case, (server,) = attached(volumes)
    case.end_once()
    change(case, status='in-use', next=[])
    with pytest.raises(exceptions.Transient, match=server['id']):
        case.end_once()
    assert isinstance(case.end_once(), PollAgain)
    case.end()
    assert asked(case) == ['detach', 'detach', 'delete']


@pytest.mark.parametrize('before', ['in-use', 'reserved'])
def test_in_use_by_nobody(volumes, before):
    case = woken(volumes, status=before)
    case.end_once()
    case.time.forward(300)
    assert f'{before} without a change for 5 minutes' in case.end_once().reason
    case.time.forward(300)
    assert case.end_once().repair == 'reset_status'
    case.end()
    assert asked(case) == ['os-reset_status', 'delete']


def test_an_attachment_of_the_old_kind_that_nobody_goes_on_with(volumes):
    case = woken(volumes, status='attaching')
    case.end()
    assert asked(case) == ['os-unreserve', 'delete']


def test_detaching_with_the_rights_of_the_service(volumes):
    case, _ = attached(volumes)
    without_rights(case)
    case.end()
    entries = [e for e in volumes.state.journal() if e['id'] == case.resource_id]
    assert [e['what'] for e in entries if e.get('as') == 'climate-id'] == ['detach', 'delete']
