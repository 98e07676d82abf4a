# SPDX-License-Identifier: Apache-2.0
"""What servers, volumes and stacks have in common, each in its fake cloud."""

import dataclasses

import pytest

from climate_core import exceptions
from climate_core.plugins import wakeable
from tests.conformance.fake_servers import FakeServers
from tests.conformance.fake_stacks import FakeStacks
from tests.conformance.fake_volumes import FakeVolumes
from tests.conformance.world import reserved


@pytest.fixture(params=[FakeServers, FakeVolumes, FakeStacks])
def place(request, fake):
    return request.param(fake)


def let_the_service_be(place, *roles):
    """Give the service these roles, with the token that it has already."""
    user = place.state.users['climate-id']
    tokens = [each for each in place.state.tokens.values() if each['user_id'] == 'climate-id']
    for each in (user, *tokens):
        each['roles'] = list(roles)


def test_what_the_service_may_not_see_is_not_gone(place):
    case = reserved(place, on_end='delete')
    case.woken()
    case.lease = dataclasses.replace(case.lease, trust_id=None)
    let_the_service_be(place, 'service')
    with pytest.raises(exceptions.Transient, match='403'):
        case.end_once()
    assert not place.gone(case.resource_id)
    let_the_service_be(place, 'admin', 'service')
    case.end()
    assert place.gone(case.resource_id)


def test_what_its_owner_does_not_see_is_gone(place):
    """He may see all of his project, so nothing else is asked."""
    case = reserved(place)
    case.woken()
    place.destroy(case.resource_id)
    with place.counted() as sent:
        assert case.end_once() is None
    assert len([line for line in sent if '/identity/' not in line]) == 1


def test_each_is_one_of_them(place):
    assert isinstance(place.plugin(), wakeable.WakeablePlugin)
