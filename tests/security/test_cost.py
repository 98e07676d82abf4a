# SPDX-License-Identifier: Apache-2.0
"""The bounds of this suite notice what exceeds them."""

import time

import pytest

from tests.security import cost


def test_memory_above_the_bound_fails() -> None:
    with pytest.raises(AssertionError, match='at most 20 MiB'), cost.bounded(10, 20):
        assert len(b'x' * (40 << 20)) == 40 << 20


def test_cpu_above_the_bound_fails() -> None:
    with pytest.raises(AssertionError, match=r'at most 0\.1 s'), cost.bounded(0.1, 100):
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass


def test_work_within_the_bounds_passes() -> None:
    with cost.bounded(10, 100):
        assert sum(range(1000)) == 499_500
