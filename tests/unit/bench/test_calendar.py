# SPDX-License-Identifier: Apache-2.0
"""The bench of the calendar does what it says."""

import pytest

from climate_core import exceptions
from tests.bench.calendar import Bench

#: Fewer than there are groups of promises would not be busy all the time.
UNITS = 20


@pytest.mark.parametrize('shares', [False, True])
def test_bench_of_the_calendar(tmp_path, shares):
    bench = Bench(f'sqlite:///{tmp_path}/calendar.sqlite', UNITS, 6, shares)
    lines = list(bench.run(2))
    assert lines[1].startswith('check, all are free: 1 SQL (1 SELECT)')
    assert lines[3].startswith('promise: 5 SQL (3 INSERT, 1 SELECT, 1 UPDATE)')
    if shares:
        bench.check(25, 20)
    else:
        with pytest.raises(exceptions.NotEnough, match='Capacity is sufficient'):
            bench.check(25, 20)
