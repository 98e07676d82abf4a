# SPDX-License-Identifier: Apache-2.0
"""What servers, volumes and stacks have in common, each in its fake cloud."""

import dataclasses
import uuid

import pytest

from climate_common import resource_types
from climate_core import exceptions
from climate_core.cloud import services
from climate_core.plugins import own_service_plugin, server_end, volume_end
from climate_core.plugins.base import PollAgain
from climate_core.plugins.server import ServerPlugin
from climate_core.plugins.stack import StackPlugin
from climate_core.plugins.volume import VolumePlugin
from tests.conformance.world import reserved
from tests.support.missing import find_missing
from tests.unit.plugins.cases import asked, change, without_rights, woken

WAKE_UP = 'POST', '/(servers|volumes)/.*/action'
DELETE = 'DELETE', '/(servers|volumes)/'


def test_stacks_come_first_at_both_ends_and_servers_within_their_volumes():
    assert StackPlugin.rank < VolumePlugin.rank < ServerPlugin.rank
    assert ServerPlugin.rank_at_end is VolumePlugin.rank_at_end is None
    assert StackPlugin.rank_at_end > ServerPlugin.rank


@pytest.mark.parametrize('plugin', [StackPlugin, ServerPlugin, VolumePlugin])
def test_work_is_the_owners_alone_and_only_the_end_action_changes(plugin):
    assert plugin.wakes_as_owner
    assert list(plugin.changeable) == ['on_end']


def test_the_end_action_comes_from_the_configuration(place):
    *_, usual, other = (each['on_end'] for each in place.end_params())
    plugin, user, values = place.plugin(), place.user(), place.reservable()
    place.conf.set_override('on_end', usual, group=plugin.resource_type)
    assert plugin.reserve(user, values).params == {'on_end': usual}
    assert plugin.reserve(user, {**values, 'on_end': other}).params == {'on_end': other}


def test_an_administrator_reserves_in_their_project_only(place):
    with pytest.raises(exceptions.ResourceNotFound):
        place.plugin().reserve(place.context('climate'), place.reservable())


def test_a_token_that_has_expired(place):
    values = place.reservable()
    del place.state.tokens[place.user().auth_token]
    with pytest.raises(exceptions.Unauthorized):
        place.plugin().reserve(place.user(), values)


@pytest.mark.parametrize(
    ('resource_type', 'end_steps', 'without', 'of_hosts'),
    [
        (resource_types.SERVER, server_end, {'delete', 'nothing'}, {'migrate'}),
        (resource_types.VOLUME, volume_end, {'nothing'}, set()),
    ],
)
def test_each_end_action_has_its_steps(resource_type, end_steps, without, of_hosts):
    choices = resource_types.ON_END[resource_type].keys()
    assert set(end_steps.STEPS) == choices - without | of_hosts


def test_a_wake_up_that_failed_is_told_and_asked_for_again_later(single):
    case = reserved(single)
    change(case, wake_failures=1)
    with pytest.raises(
        exceptions.Transient, match=r'No space left on the host|Image is not there'
    ):
        case.wake()
    assert isinstance(case.wake_once(), PollAgain)
    assert single.wakes(case.resource_id) == 1
    case.wake()
    assert single.awake(case.resource_id)
    assert single.wakes(case.resource_id) == 2


def test_a_second_wake_up_costs_one_token_and_four_calls(single):
    """When the endpoints are known."""
    reserved(single).wake()
    case = reserved(single)
    with single.counted() as sent:
        case.wake()
    assert [line.split(' ')[0] for line in sent] == ['POST', 'GET', 'POST', 'GET', 'GET']
    assert sum('/auth/tokens' in line for line in sent) == 1


def test_a_wake_up_by_others_is_waited_for(single):
    case = reserved(single)
    single.fault(*WAKE_UP, 409, after=True)
    assert isinstance(case.wake_once(), PollAgain)
    case.wake()
    assert single.wakes(case.resource_id) == 1


def test_a_conflict_that_is_none(single):
    case = reserved(single)
    single.fault(*WAKE_UP, 409)
    with pytest.raises(exceptions.Transient, match='409'):
        case.wake_once()


def test_a_wake_up_whose_answer_was_lost_is_not_repeated(single):
    case = reserved(single)
    single.fault(*WAKE_UP, 0, after=True)
    with pytest.raises(exceptions.Transient):
        case.wake_once()
    case.wake()
    assert single.wakes(case.resource_id) == 1


def test_a_wake_up_that_is_refused_is_permanent(single):
    case = reserved(single)
    single.state.users['climate-id']['roles'] = ['reader']
    single.state.tokens.clear()
    with pytest.raises(exceptions.Permanent, match='403'):
        case.wake_once()


def test_a_lease_without_a_trust(place):
    case = reserved(place)
    without_rights(case)
    with pytest.raises(exceptions.Permanent, match='trust'):
        case.wake_once()
    assert isinstance(case.end_once(), PollAgain)


def test_a_refusal_of_the_end_is_tried_again(single):
    """The end frees capacity: it is never given up."""
    case = woken(single)
    single.fault(*DELETE, 403)
    with pytest.raises(exceptions.Transient, match='403'):
        case.end_once()
    case.end()
    assert asked(case) == ['delete']


def test_a_deletion_is_asked_for_once(single):
    case = woken(single)
    case.end_once()
    change(case, next=[])
    assert isinstance(case.end_once(), PollAgain)
    assert asked(case) == ['delete']


def test_what_the_service_may_not_see_is_not_gone(place):
    case = woken(place)
    without_rights(case)
    place.service_has('service')
    with pytest.raises(exceptions.Transient, match='403'):
        case.end_once()
    assert not place.gone(case.resource_id)
    place.service_has('admin', 'service')
    case.end()
    assert place.gone(case.resource_id)


def test_what_its_owner_does_not_see_is_gone(place):
    """They may see all of their project, so nothing else is asked."""
    case = woken(place)
    place.destroy(case.resource_id)
    with place.counted() as sent:
        assert case.end_once() is None
    assert len([line for line in sent if '/identity/' not in line]) == 1


def test_nothing_is_missing_without_the_right_to_see_it(place):
    """A service lists what it may show and does not say that there is more."""
    case = reserved(place)
    place.service_has('service')
    with pytest.raises(exceptions.Permanent, match='403'):
        find_missing(place.plugin(), [case.reservation])


def test_nothing_is_missing_from_nothing(place):
    with place.counted() as sent:
        assert find_missing(place.plugin(), []) == {}
    assert sent == []


def test_many_missing_are_looked_up_in_a_list(single, monkeypatch):
    monkeypatch.setattr(own_service_plugin, '_MAX_SINGLE_READS', 1)
    monkeypatch.setattr(services, 'PAGE', 2)
    cases = [reserved(single) for _ in range(4)]
    single.destroy(cases[2].resource_id)
    with single.counted() as sent:
        found = find_missing(single.plugin(), [case.reservation for case in cases])
    assert set(found) == {cases[2].reservation.id}
    # Who we are; two pages; the one that is not in them.
    assert len(sent) == 4


def test_pages_of_many_are_compared_with_one_listing(single, monkeypatch):
    monkeypatch.setattr(own_service_plugin, '_MAX_SINGLE_READS', 1)
    cases = [reserved(single) for _ in range(4)]
    single.destroy(cases[2].resource_id)

    def read_pages():
        yield [case.reservation for case in cases[:2]]
        late = reserved(single)
        for case in cases[2:]:
            yield [case.reservation, late.reservation]

    with single.counted() as sent:
        found = list(single.plugin().reconcile(read_pages()))
    assert [reservation.id for reservation, _ in found] == [cases[2].reservation.id]
    assert len([line for line in sent if 'limit=1000' in line]) == 1


def test_missing_of_many_is_looked_up_when_a_listing_misses_it(stacks, monkeypatch):
    monkeypatch.setattr(own_service_plugin, '_MAX_SINGLE_READS', 1)
    cases = [reserved(stacks) for _ in range(3)]
    change(cases[1], project_id='other-id')
    change(cases[2], status='DELETE_COMPLETE')
    nested = stacks.add(parent=cases[0].resource_id)
    odd = dataclasses.replace(cases[0].reservation, id='odd', resource_id=nested['id'])
    found = find_missing(stacks.plugin(), [*(each.reservation for each in cases), odd])
    assert found == {}
    stacks.destroy(cases[1].resource_id)
    found = find_missing(stacks.plugin(), [each.reservation for each in cases])
    told = 'The stack was deleted or abandoned outside of the lease.'
    assert found == {cases[1].reservation.id: told}


def test_what_is_discarded_is_deleted_and_waits_no_more(single):
    made, plugin = single.add(), single.plugin()
    assert plugin.unleased_since(made['id'])
    plugin.discard(made['id'])
    assert single.effects(made['id']) == ['delete']
    assert plugin.unleased_since(made['id']) is None
    plugin.discard(str(uuid.uuid4()))
    assert plugin.unleased_since(str(uuid.uuid4())) is None
