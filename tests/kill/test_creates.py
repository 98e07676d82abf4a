# SPDX-License-Identifier: Apache-2.0
"""A manager dies while it creates leases that came at once: each is whole or not there."""

import uuid

import pytest

from climate_core.db import leases as db
from climate_core.db import listing
from tests.kill.deaths import check_told_once_each

COUNT = 5
#: The transactions of ``create_at_once``: that of the first one, and that of the others.
COMMITS = ('commit.before:create:1', 'commit.before:create:2')


def wanted(stage):
    """Return requests for leases of a server each."""
    dates = {'start_date': '2098-01-01 10:00', 'end_date': '2099-01-01 10:00'}
    return [
        {
            'id': str(uuid.uuid4()),
            'name': 'n',
            **dates,
            'reservations': [{'resource_type': 'virtual:instance', 'resource_id': server}],
        }
        for server in stage.cloud.servers(COUNT)
    ]


def present(stage, asked):
    """Return the leases that are there; each is whole."""
    found = [stage.database.read(db.find, each['id']) for each in asked]
    there = [each for each in found if each is not None]
    for lease in there:
        assert len(lease.reservations) == 1
        assert {each.event_type for each in lease.events} >= {'start_lease', 'end_lease'}
        assert len(stage.database.read(listing.read_history_page, lease.id)[0]) == 1
    return there


@pytest.mark.parametrize(('kill', 'count'), [(COMMITS[0], 0), (COMMITS[1], 1)])
def test_killed_creates_are_done_once_by_the_next_manager(stage, kill, count):
    asked = wanted(stage)
    stage.create_at_once(*asked, kill=kill).dies()
    ids = {lease.id for lease in present(stage, asked)}
    assert len(ids) == count

    stage.create_at_once(*(each for each in asked if each['id'] not in ids)).ends()
    for each in asked:
        if each['id'] in ids:
            stage.request(each).ends()
    made = present(stage, asked)
    assert len(made) == COUNT
    stage.manager()
    check_told_once_each(stage, 'lease.create', made)


def test_others_of_a_group_are_written_when_one_is_refused(stage):
    asked = wanted(stage)
    same = {**asked[-1], 'id': str(uuid.uuid4()), 'name': 'other'}
    stage.create_at_once(*asked, same).ends()
    assert {len(present(stage, [*asked, same])), len(present(stage, asked[:-1]))} == {5, 4}
