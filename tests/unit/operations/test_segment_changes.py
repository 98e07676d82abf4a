# SPDX-License-Identifier: Apache-2.0
"""Who may be promised a segment, changed by several operators at once."""

import threading
from typing import Any

import pytest

from climate_core import exceptions
from climate_core.context import RequestContext
from climate_networks import db
from climate_networks.operations import NetworkOperations
from climate_networks.units import RegisteredSegment, Segment
from tests.support.mixed import Mixed, a_network
from tests.support.world import World

OPERATOR = RequestContext(user_id='operator', overwrite=False)


class Operators:
    """Operators of one segment."""

    def __init__(self, world: World) -> None:
        self._database = world.database
        self._operations = NetworkOperations(world.database, None)  # type: ignore[arg-type]
        unit = {'available': True, 'access': None}
        made = [Segment('vlan', 'physnet1', 100)]
        (self.id,) = world.database.write(db.insert_segments, made, unit, {})

    def read(self) -> RegisteredSegment:
        return self._database.read(db.SEGMENTS.get, self.id)

    def change(self, **values: Any) -> None:
        self._operations.update_network(OPERATOR, self.id, values)

    def add(self, project: str) -> None:
        """Add a project as the command does."""
        while True:
            seen = self.read()
            ids = [*seen.project_ids, project]
            try:
                self.change(project_ids=ids, generation=seen.generation)
            except exceptions.NetworkChanged:
                continue
            return


def test_projects_that_operators_add_at_once_are_all_kept(any_world: World) -> None:
    operators, projects = Operators(any_world), [f'p{number}' for number in range(6)]
    adding = [threading.Thread(target=operators.add, args=(each,)) for each in projects]
    for each in adding:
        each.start()
    for each in adding:
        each.join()
    found = operators.read()
    assert (sorted(found.project_ids), found.generation) == (projects, len(projects))


def test_change_of_an_older_generation_is_refused_and_changes_nothing(world: World) -> None:
    operators = Operators(world)
    operators.change(project_ids=['first'], generation=0)
    with pytest.raises(exceptions.NetworkChanged, match='generation 1 by now, not 0') as caught:
        operators.change(project_ids=['second'], available=False, generation=0)
    assert caught.value.field == 'generation'
    found = operators.read()
    assert (found.project_ids, found.available, found.generation) == (['first'], True, 1)
    # Who names none is not asked.
    operators.change(available=False)
    assert operators.read().generation == 2


def test_promises_do_not_count_as_changes_by_operators(world: World) -> None:
    mixed = Mixed(world)
    operators = Operators(world)
    mixed.lease('now', '2082-12-01 14:00', [a_network()])
    assert operators.read().generation == 0
    operators.change(project_ids=['first'], generation=0)
