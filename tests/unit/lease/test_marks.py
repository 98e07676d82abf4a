# SPDX-License-Identifier: Apache-2.0
"""The descriptions and tags of what was made in Neutron for reservations."""

import pytest

from climate_networks import cloud


@pytest.mark.parametrize(
    ('found', 'is_marked'),
    [
        ({}, False),
        ({'description': None, 'tags': []}, False),
        ({'description': 'mine', 'tags': ['blue']}, False),
        ({'description': cloud.mark('other')}, True),
        ({'description': '', 'tags': ['blue', cloud.tag('other')]}, True),
    ],
)
def test_description_or_tag_marks_what_was_made_for_a_lease(found: dict, is_marked: bool) -> None:
    assert cloud.is_marked(found) == is_marked


@pytest.mark.parametrize(
    ('found', 'is_marked'),
    [
        ({'description': cloud.mark('r')}, True),
        # Its owner changed the description; the tag is left.
        ({'description': 'mine', 'tags': [cloud.tag('r')]}, True),
        ({'description': cloud.mark('other'), 'tags': [cloud.tag('other')]}, False),
        ({}, False),
        # Another project copied the mark.
        ({'description': cloud.mark('r'), 'tags': [cloud.tag('r')], 'project_id': 'q'}, False),
    ],
)
def test_mark_counts_for_its_reservation_in_its_project_only(found: dict, is_marked: bool) -> None:
    assert cloud.is_marked_for({'project_id': 'p', **found}, 'r', 'p') == is_marked
