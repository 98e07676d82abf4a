# SPDX-License-Identifier: Apache-2.0
"""``virtual:share``: a type of resource that the tests add to Climate, without a change of it."""

import importlib.metadata

import pytest

from climate_core import packages
from climate_core.plugins import loading

#: Namespace -> the entry points that the distribution of this package would declare.
ENTRY_POINTS = {
    loading.NAMESPACE: {
        'virtual:share': 'tests.support.fakes.share_plugin.plugin:SharePlugin',
    },
    packages.NAMESPACE: {
        'shares': 'tests.support.fakes.share_plugin.plugin:SharePackage',
    },
}


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offer the entry points beside those of the installed distributions."""
    from stevedore import ExtensionManager

    listed = ExtensionManager.list_entry_points

    def list_entry_points(self: ExtensionManager[object]) -> list[importlib.metadata.EntryPoint]:
        more = ENTRY_POINTS.get(self.namespace, {})
        return [
            *listed(self),
            *(
                importlib.metadata.EntryPoint(name, value, self.namespace)
                for name, value in more.items()
            ),
        ]

    monkeypatch.setattr(ExtensionManager, 'list_entry_points', list_entry_points)
    monkeypatch.setattr(
        ExtensionManager,
        'entry_points_names',
        lambda self: [point.name for point in self.list_entry_points()],
    )
    packages.list_packages.cache_clear()
