# SPDX-License-Identifier: Apache-2.0
"""The suite: what the engine relies on, for every plugin."""

import dataclasses
import importlib
import inspect
import json
import pkgutil
import uuid

import jsonschema
import pytest
from oslo_config import cfg

from climate_core import exceptions, plugins
from climate_core.plugins import own_service_plugin
from climate_core.plugins.base import PollAgain, Preemptible
from tests.conformance.conftest import FAKES, WORLDS
from tests.conformance.world import reservation_of, reserved, settle
from tests.support.missing import find_missing

#: The worlds of the one plugin whose resources are preempted.
SERVERS = [each for each in WORLDS if each.endswith('-servers')]


def found_plugins():
    """Return the classes of the tree that change resources which exist before their lease."""
    for module in pkgutil.walk_packages(plugins.__path__, 'climate_core.plugins.'):
        importlib.import_module(module.name)
    left, found = [own_service_plugin.OwnServicePlugin], set()
    while left:
        left += left.pop().__subclasses__()
        found |= {each for each in left if each.__module__.startswith('climate_')}
    return found


def test_every_plugin_that_changes_what_exists_has_a_world():
    """So none is without the tests of resources of other projects."""
    whole = {each for each in found_plugins() if not inspect.isabstract(each)}
    assert whole <= {each.plugin_class for each in FAKES.values()}


def test_no_plugin_changes_how_a_resource_is_read_before_a_step():
    members = vars(own_service_plugin.OwnServicePlugin)
    final = {name for name, each in members.items() if getattr(each, '__final__', False)}
    assert {'end', '_take_step', '_free'} <= final
    for each in found_plugins():
        assert final.isdisjoint(vars(each)), each


def test_says_what_it_is(world):
    plugin = world.plugin()
    assert plugin.resource_type
    assert plugin.title
    assert plugin.description
    cfg.ConfigOpts().register_opts(plugin.options, group=plugin.resource_type)


def test_its_schema_is_a_schema(world):
    plugin = world.plugin()
    schema = {'type': 'object', 'properties': dict(plugin.schema), 'required': [*plugin.required]}
    jsonschema.Draft202012Validator.check_schema(schema)
    assert set(plugin.required) <= set(plugin.schema)
    # What a lease is about stays what it is.
    assert set(plugin.changeable) <= set(plugin.schema) - {'resource_id'}
    json.dumps(schema)


def test_reserve_says_what_it_found_and_wakes_nothing(world):
    values = world.reservable()
    claimed = world.plugin().reserve(world.user(), values)
    assert claimed.resource_id == values['resource_id']
    json.dumps(dict(claimed.params))
    assert world.plugin().reserve(world.user(), values) == claimed
    assert world.wakes(values['resource_id']) == 0


def test_reserve_what_is_not_there(world):
    values = {**world.reservable(), 'resource_id': str(uuid.uuid4())}
    with pytest.raises(exceptions.ResourceNotFound) as caught:
        world.plugin().reserve(world.user(), values)
    assert caught.value.field == 'resource_id'


def test_reserve_in_another_project(world):
    with pytest.raises(exceptions.ResourceNotFound):
        world.plugin().reserve(world.stranger(), world.reservable())


def test_reserve_what_runs_already(world):
    with pytest.raises(exceptions.BadRequest):
        world.plugin().reserve(world.user(), world.running())


def test_reserve_while_the_cloud_is_away(world):
    values = world.reservable()
    with world.unreachable(), pytest.raises(exceptions.ServiceUnavailable):
        world.plugin().reserve(world.user(), values)


def test_wake_up_again_does_nothing(world):
    case = reserved(world)
    case.wake()
    assert world.awake(case.resource_id)
    assert case.wake_once() is None
    assert world.wakes(case.resource_id) == int(world.sleeps)


def test_wake_up_goes_on_after_a_restart(world):
    case = reserved(world)
    assert isinstance(case.wake_once(), PollAgain) == world.sleeps
    case.wake(world.plugin())
    assert world.awake(case.resource_id)
    assert world.wakes(case.resource_id) == int(world.sleeps)


def test_wake_up_waits_longer_and_longer(world):
    case = reserved(world)
    waits = []
    settle(lambda: _noted(case.wake_once(), waits))
    assert waits == sorted(waits)


def _noted(answer, waits):
    if answer:
        waits.append(answer.seconds)
    return answer


def test_wake_up_of_what_is_gone(world):
    case = reserved(world)
    world.destroy(case.resource_id)
    with pytest.raises(exceptions.Permanent):
        case.wake()


@pytest.mark.parametrize('action', ['wake', 'end'])
def test_action_goes_on_after_the_cloud_was_away(world, action):
    case = reserved(world)
    act = getattr(case, action)
    with world.unreachable(), pytest.raises(exceptions.Transient):
        act()
    act()
    wakes = int(world.sleeps)
    assert (
        world.gone(case.resource_id)
        if action == 'end'
        else (world.wakes(case.resource_id) == wakes)
    )


def test_wake_up_without_the_rights_of_the_owner(world):
    case = reserved(world)
    world.trusts.delete(case.lease.trust_id)
    with pytest.raises(exceptions.Permanent, match='trust'):
        case.wake()
    assert world.wakes(case.resource_id) == 0


def test_every_end_again_does_nothing(world):
    for params in world.end_params():
        case = reserved(world, **params)
        case.woken()
        case.end()
        assert world.ended(case.reservation), params
        assert case.end_once() is None
        assert case.end_once(world.plugin()) is None
        assert world.ended(case.reservation), params


def test_every_end_goes_on_after_a_restart_at_each_look(world):
    for params in world.end_params():
        case = reserved(world, **params)
        case.woken()
        settle(lambda case=case: case.end_once(world.plugin()))
        assert world.ended(case.reservation), params


def test_what_never_ran_is_freed_unless_it_never_slept(world):
    for params in world.end_params():
        case = reserved(world, **params)
        case.end()
        freed = world.gone if world.sleeps else lambda _, case=case: world.ended(case.reservation)
        assert freed(case.resource_id), params


def test_end_of_what_is_gone(world):
    case = reserved(world)
    world.destroy(case.resource_id)
    assert case.end_once() is None


def test_end_without_the_rights_of_the_owner(world):
    case = reserved(world)
    world.trusts.delete(case.lease.trust_id)
    case.end()
    assert world.gone(case.resource_id)


@pytest.mark.parametrize('rights', ['owner', 'service'])
def test_end_leaves_a_resource_of_another_project_as_it_is(world, rights, caplog):
    """Neither the rights of the service nor those of an administrator who owns the lease help."""
    for params in world.end_params():
        with world.owner_is_administrator():
            case = reserved(world, **params)
            case.woken()
            if rights == 'service':
                case.lease = dataclasses.replace(case.lease, trust_id=None)
            world.give_away(case.resource_id)
            with world.counted() as sent:
                case.end()
        assert changes(sent) == [], params
        assert not world.gone(case.resource_id)
        assert f'{case.resource_id} belongs to another project' in caplog.text
        caplog.clear()


def test_start_leaves_a_resource_of_another_project_as_it_is(world):
    with world.owner_is_administrator():
        case = reserved(world)
        world.give_away(case.resource_id)
        # After the first try; that is sent to Nova unseen, which rejects it.
        case.reservation = dataclasses.replace(case.reservation, progress={})
        with (
            world.counted() as sent,
            pytest.raises(exceptions.Permanent, match='belongs to another project'),
        ):
            case.wake()
    assert changes(sent) == []
    assert world.wakes(case.resource_id) == 0


@pytest.mark.parametrize('world', SERVERS, indirect=True, scope='session')
def test_preemption_leaves_a_resource_of_another_project_as_it_is(world):
    assert isinstance(world.plugin(), Preemptible)
    case = reserved(world)
    case.woken()
    case.lease = dataclasses.replace(case.lease, trust_id=None)
    world.give_away(case.resource_id)
    with world.counted() as sent:
        settle(case.preempt_once)
    assert changes(sent) == []


def changes(sent):
    """Return the requests that change something; a token is none."""
    return [each for each in sent if not each.startswith('GET ') and '/auth/tokens' not in each]


def test_missing_names_what_is_gone(world):
    kept, lost = reserved(world), reserved(world)
    world.destroy(lost.resource_id)
    found = find_missing(world.plugin(), [kept.reservation, lost.reservation])
    assert list(found) == [lost.reservation.id]
    assert found[lost.reservation.id]


def test_missing_asks_no_more_for_more(world):
    """A page of reservations of the same resource costs as much as a bigger one."""
    plugin = world.plugin()
    claimed = plugin.reserve(world.user(), world.reservable())
    costs = []
    for size in (20, 200):
        page = [reservation_of(claimed, plugin.resource_type) for _ in range(size)]
        with world.counted() as sent:
            assert find_missing(plugin, page) == {}
        costs.append(len(sent))
    assert costs[0] == costs[1]


def test_missing_while_the_cloud_is_away(world):
    case = reserved(world)
    with world.unreachable(), pytest.raises(exceptions.Transient):
        find_missing(world.plugin(), [case.reservation])
