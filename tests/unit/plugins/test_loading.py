# SPDX-License-Identifier: Apache-2.0
import importlib.metadata

import pytest

from climate_core import packages
from climate_core.plugins import loading
from climate_core.plugins.server import ServerPlugin
from climate_hosts.plugins.capacity import SizesPlugin
from tests.support.fakes import settings

MODULE = __name__


class Twin(ServerPlugin):
    """Another plugin for the same type."""


class Stranger:
    """No plugin."""


@pytest.fixture
def installed(monkeypatch):
    """Offer this module's classes as installed plugins."""
    packages.list_packages()
    points = [
        importlib.metadata.EntryPoint(name, value, loading.NAMESPACE)
        for name, value in {
            'virtual:instance': 'climate_core.plugins.server:ServerPlugin',
            'twin': f'{MODULE}:Twin',
            'stranger': f'{MODULE}:Stranger',
            'broken': 'climate_core.no_such_module:Plugin',
        }.items()
    ]
    monkeypatch.setattr('stevedore.ExtensionManager.list_entry_points', lambda self: points)
    monkeypatch.setattr(
        'stevedore.ExtensionManager.entry_points_names', lambda self: [p.name for p in points]
    )


def test_installed_plugins_of_a_type_are_loaded():
    assert loading.load_classes(['virtual:instance']) == [ServerPlugin, SizesPlugin]


def test_load_registers_the_options():
    conf = settings.conf('http://127.0.0.1:9')
    loaded = loading.load_plugins(conf, None)
    assert list(loaded) == ['virtual:instance', 'size:instance']
    assert loaded['virtual:instance'].conf['virtual:instance'].on_end == 'delete'


@pytest.mark.parametrize(
    ('names', 'reason'),
    [
        (['virtual:instance', 'nonsense'], 'nonsense'),
        (['broken'], 'no_such_module'),
        (['virtual:instance', 'twin'], 'two plugins'),
        (['stranger'], 'not a resource plugin'),
    ],
)
def test_what_cannot_be_used_is_refused(installed, names, reason):
    with pytest.raises(loading.PluginError, match=reason):
        loading.load_classes(names)


def test_only_what_is_named_is_loaded(installed):
    assert loading.load_classes(['twin']) == [Twin, SizesPlugin]
