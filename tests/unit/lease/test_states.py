# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import pytest

from climate_core.lease import states
from climate_core.lease.states import Move

TABLES = [
    (states.LEASE, states.LeaseStatus),
    (states.RESERVATION, states.ReservationStatus),
    (states.EVENT, states.EventStatus),
]


@pytest.mark.parametrize(('table', 'names'), TABLES)
def test_every_state_can_be_reached(table: Sequence[Move], names: type) -> None:
    # Hosts are emptied for a lease from its beginning, or never.
    reached = {str(table[0].source), *({'IN_PROGRESS'} if table is states.LEASE else ())}
    for _ in table:
        reached |= {str(m.target) for m in table if m.source in reached}
    assert reached == {str(name) for name in names}  # type: ignore[attr-defined]


@pytest.mark.parametrize(('table', 'names'), TABLES)
def test_no_move_is_there_twice(table: Sequence[Move], names: type) -> None:
    pairs = [(m.source, m.target) for m in table]
    assert len(pairs) == len(set(pairs))


def test_every_lease_can_end() -> None:
    for status in states.LeaseStatus:
        if status is not states.LeaseStatus.TERMINATED:
            assert any(m.source == status and m.target in states.ENDING for m in states.LEASE)


def test_what_is_not_in_the_table_is_refused() -> None:
    assert states.check_move(states.LEASE, 'PENDING', 'STARTING') == 'STARTING'
    assert states.check_move(states.LEASE, 'ACTIVE', 'ACTIVE') == 'ACTIVE'
    with pytest.raises(ValueError, match='TERMINATED -> ACTIVE'):
        states.check_move(states.LEASE, 'TERMINATED', 'ACTIVE')
