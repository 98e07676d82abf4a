# SPDX-License-Identifier: Apache-2.0
"""Who may be promised units."""

import pytest

from climate_core.calendar.model import Access

NOBODY = frozenset[str]()


@pytest.mark.parametrize(
    ('access', 'stored'),
    [
        (Access(frozenset('ba'), NOBODY), {'project_ids': ['a', 'b'], 'domain_ids': []}),
        (Access(NOBODY, frozenset('d')), {'project_ids': [], 'domain_ids': ['d']}),
    ],
)
def test_access_is_loaded_as_it_was_dumped(access, stored) -> None:
    assert access.dump() == stored
    assert Access.load(stored) == access


def test_access_of_nobody_in_particular_is_that_of_everybody() -> None:
    assert Access(NOBODY, NOBODY).dump() is None
    assert Access.load(None) is None


@pytest.mark.parametrize(
    ('project_id', 'domain_id', 'admitted'),
    [
        ('p', 'x', True),
        ('x', 'd', True),
        ('x', 'x', False),
        ('d', 'p', False),
        (None, None, False),
    ],
)
def test_project_or_its_domain_is_admitted(project_id, domain_id, admitted) -> None:
    assert Access(frozenset('p'), frozenset('d')).admits(project_id, domain_id) is admitted
