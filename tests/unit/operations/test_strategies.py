# SPDX-License-Identifier: Apache-2.0
"""How the strategy is found by which hosts are emptied."""

import pathlib
import sys

import pytest
from stevedore import _cache, extension

from climate_core.plugins import server_placement
from climate_core.plugins.loading import PluginError
from climate_hosts.operations.evacuation import load_strategy


def test_strategy_is_found_by_its_name() -> None:
    for name in ('fewest_servers', 'least_memory', 'oldest_first'):
        assert load_strategy(name) is getattr(server_placement, name)


def test_unknown_strategy_is_told_with_those_that_there_are() -> None:
    with pytest.raises(PluginError, match=r'migration_strategy: largest .*oldest_first'):
        load_strategy('largest')


def test_strategy_of_another_package_is_found(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its entry point, as the documents for operators say."""
    package = tmp_path / 'site_policy-1.0.dist-info'
    package.mkdir()
    (package / 'METADATA').write_text('Metadata-Version: 2.1\nName: site-policy\nVersion: 1.0\n')
    (package / 'entry_points.txt').write_text(
        '[climate.migration.strategies]\nby_name = site_policy:by_name\n'
    )
    (tmp_path / 'site_policy.py').write_text(
        'def by_name(candidate):\n    return candidate.name\n'
    )
    monkeypatch.setattr(sys, 'path', [str(tmp_path), *sys.path])
    monkeypatch.setattr(_cache, '_c', _cache.Cache(cache_dir=str(tmp_path / 'cache')))
    monkeypatch.setattr(extension.ExtensionManager, 'ENTRY_POINT_CACHE', {})
    found = load_strategy('by_name')
    hosts = [
        server_placement.CandidateHost(id=1, name='b'),
        server_placement.CandidateHost(id=2, name='a'),
    ]
    assert [each.id for each in server_placement.choose_hosts(hosts, 2, [], found)] == [2, 1]
