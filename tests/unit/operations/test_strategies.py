# SPDX-License-Identifier: Apache-2.0
"""How the strategy is found by which hosts are emptied."""

import pytest

from climate_core.calendar import emptying
from climate_core.operations.making_room import strategy
from climate_core.plugins.loading import PluginError


def test_strategy_is_found_by_its_name() -> None:
    for name in ('fewest_servers', 'least_memory', 'oldest_first'):
        assert strategy(name) is getattr(emptying, name)


def test_unknown_strategy_is_told_with_those_that_there_are() -> None:
    with pytest.raises(PluginError, match=r'migration_strategy: largest .*oldest_first'):
        strategy('largest')
