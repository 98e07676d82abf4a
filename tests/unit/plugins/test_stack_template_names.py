# SPDX-License-Identifier: Apache-2.0
"""Stacks of templates that are asked for again, or whose name is taken."""

import dataclasses

import pytest

from climate_core import exceptions
from climate_core.cloud import external_service
from climate_core.lease import history, views
from tests.support.leases import is_found
from tests.unit.plugins.templated import TOO_BIG, wanted

ID = '6b0a3c2e-6c5e-4c2c-9c8b-3f1d6f6b7a11'


@pytest.mark.parametrize('again', ['join', 'create'])
def test_asking_again_for_what_is_being_taken_back(templated, again):
    """Heat does not fill it and cannot delete it yet, so its name is taken."""
    lease_id = templated.made(wanted(), id=ID)
    patch = {'method': 'PATCH', 'path': '/heat/', 'status': 400, 'count': 1}
    delete = {'method': 'DELETE', 'path': '/web/', 'status': 503, 'count': 50}
    templated.state.faults += [patch, delete]
    templated.look_around(2)
    before = templated.lease(lease_id)
    assert before.reservations[0].status == 'error'
    with pytest.raises(exceptions.NameTaken):
        if again == 'join':
            templated.joined(lease_id)
        else:
            templated.made(wanted(), wanted(name='other'), id=ID)
    assert templated.lease(lease_id) == before
    assert templated.asked()[1:] == [['stack create', 'delete'], []][again == 'join']
    delete['count'] = 1
    templated.look_around(60)
    assert templated.joined(lease_id) != before.reservations[0].id
    assert templated.asked()[-1] == 'stack create'


def test_a_dry_run_of_a_name_that_another_lease_has(templated):
    """The placeholder stays until the start; an equal request of another lease is refused."""
    lease_id = templated.made(wanted(hold='start'))
    assert not templated.granted(wanted(hold='start'))
    assert not templated.granted(wanted(hold='start'), id=ID)
    for chosen in ({}, {'id': ID}):
        with pytest.raises(exceptions.NameTaken):
            templated.made(wanted(hold='start'), **chosen)
    assert templated.granted(wanted(hold='start'), id=lease_id)


def test_a_dry_run_of_what_was_broken_off(templated):
    """The placeholder is there, its lease is not: the request and its dry run are granted."""
    user, plugin = templated.stacks.user(), templated.plugins['virtual:stack']
    plugin.make(user, ID, wanted(), plugin.reserve(user, wanted()))
    assert templated.granted(wanted(), id=ID)
    assert not templated.granted(wanted())
    assert templated.made(wanted(), id=ID) == ID


@pytest.mark.parametrize(
    'values',
    [
        {'template': TOO_BIG},
        {'hold': 'start'},
        {'parameters': {'flavor': 'large', 'key': 'secret'}},
        {'parameters': {'flavor': 'small', 'key': 'other'}},
        {'environment': {'parameter_defaults': {'a': 'b'}}},
        {'files': {'a': 'b'}},
    ],
)
@pytest.mark.parametrize('looks', [0, 5])
def test_another_stack_of_the_same_name_in_the_lease(templated, values, looks):
    """It is not answered with the one that is there, filled or not."""
    lease_id = templated.made(wanted(), id=ID)
    templated.look_around(looks)
    before = templated.lease(lease_id)
    assert not templated.granted(wanted(**values), id=ID)
    with pytest.raises(exceptions.NameTaken, match='another specification'):
        templated.joined(lease_id, **values)
    with pytest.raises(exceptions.NameTaken):
        templated.made(wanted(**values), id=ID)
    assert templated.lease(lease_id) == before
    assert templated.joined(lease_id, hold='now', on_end='nothing') == before.live[0].id


def test_two_of_one_name_join_at_once(templated, monkeypatch):
    """Heat shows nothing in which they differ: the lease does."""
    lease_id = templated.made(wanted(name='db'), id=ID)
    plugin = templated.plugins['virtual:stack']
    make = plugin.make

    def slow(*args):
        monkeypatch.setattr(plugin, 'make', make)
        templated.joined(lease_id, environment={'parameter_defaults': {'a': 'b'}})
        return make(*args)

    monkeypatch.setattr(plugin, 'make', slow)
    with pytest.raises(exceptions.NameTaken, match='another specification'):
        templated.joined(lease_id)
    assert len(templated.lease(lease_id).live) == 2
    assert len(templated.state.stacks) == 2


def test_what_a_lease_that_another_release_wrote_says(templated):
    """It did not keep what the request said."""
    lease_id = templated.made(wanted())
    (one,) = templated.lease(lease_id).reservations
    params = {key: value for key, value in one.params.items() if key != '_said'}
    old = dataclasses.replace(one, params=params)
    plugin = templated.plugins['virtual:stack']
    plugin.check_match(old, wanted(hold='start'))
    assert is_found(plugin, old, wanted(hold='start'))


def test_what_is_kept_and_not_shown(templated):
    lease = templated.lease(templated.made(wanted()))
    (one,) = lease.reservations
    assert one.params['_said']
    entry = history.describe_change(None, lease, history.Cause('lease.create'), lease.created_at)
    for told in (views.common_reservation(one), external_service.to_body(lease), entry.changes):
        assert '_said' not in str(told)
        assert "'name': 'web'" in str(told)


def test_two_of_one_name(templated):
    with pytest.raises(exceptions.BadRequest, match='only once'):
        templated.made(wanted(), wanted())
    assert not templated.state.stacks
