# SPDX-License-Identifier: Apache-2.0
"""Pages of network segments."""

import pytest

from climate_core.db.registered_units import Viewer
from climate_networks import db
from climate_networks.units import MAX_SEGMENTS, Segment
from tests.support.world import World


@pytest.fixture
def segments(world: World) -> list[int]:
    """Return the ids of many segments for others, and of one for everybody behind them."""
    others = {'available': True, 'access': {'project_ids': ['other-id'], 'domain_ids': []}}
    everybody = {'available': True, 'access': None}
    for first in (1, 1 + MAX_SEGMENTS):
        made = [Segment('vxlan', None, number) for number in range(first, first + MAX_SEGMENTS)]
        world.database.write(db.insert_segments, made, others, {})
    return world.database.write(db.insert_segments, [Segment('vxlan', None, 5000)], everybody, {})


@pytest.mark.parametrize(('limit', 'most'), [(1, 3), (1000, 1)])
def test_page_of_a_user_takes_few_statements_whatever_is_not_seen(
    world: World, segments: list[int], limit: int, most: int
) -> None:
    page = {}, 0, limit, Viewer('project-id', 'domain-id')
    found, more = world.database.read(db.SEGMENTS.page, *page)
    assert ([each.id for each in found], more) == (segments, False)
    assert len(world.statements(lambda: world.database.read(db.SEGMENTS.page, *page))) <= most


def test_page_of_an_operator_reads_no_more_than_it_shows(
    world: World, segments: list[int]
) -> None:
    page = {}, 0, 1
    found, more = world.database.read(db.SEGMENTS.page, *page)
    assert (len(found), more) == (1, True)
    assert found[0].id < segments[0]
    assert len(world.statements(lambda: world.database.read(db.SEGMENTS.page, *page))) == 1
