# SPDX-License-Identifier: Apache-2.0
import importlib.metadata

import pytest

from climate_core import plugins
from climate_core.plugins import loading
from climate_core.plugins.server.plugin import ServerPlugin
from tests.support.fakes import settings

MODULE = __name__


class Twin(ServerPlugin):
    """Another plugin for the same type."""


class Stranger:
    """No plugin."""


@pytest.fixture
def installed(monkeypatch):
    """Offer this module's classes as installed plugins."""
    points = [
        importlib.metadata.EntryPoint(name, value, loading.NAMESPACE)
        for name, value in {
            'virtual:instance': 'climate_core.plugins.server.plugin:ServerPlugin',
            'twin': f'{MODULE}:Twin',
            'stranger': f'{MODULE}:Stranger',
            'broken': 'climate_core.no_such_module:Plugin',
        }.items()
    ]
    monkeypatch.setattr('stevedore.ExtensionManager.list_entry_points', lambda self: points)
    monkeypatch.setattr(
        'stevedore.ExtensionManager.entry_points_names', lambda self: [p.name for p in points]
    )


def test_the_installed_plugin():
    assert loading.classes(['virtual:instance']) == [ServerPlugin]


def test_load_registers_the_options():
    conf = settings.conf('http://127.0.0.1:9')
    loaded = plugins.load(conf, None)
    assert list(loaded) == ['virtual:instance']
    assert loaded['virtual:instance'].conf['virtual:instance'].on_end == 'delete'


def test_what_is_not_installed_is_refused(installed):
    with pytest.raises(loading.PluginError, match='nonsense'):
        loading.classes(['virtual:instance', 'nonsense'])


def test_what_cannot_be_loaded_is_refused(installed):
    with pytest.raises(loading.PluginError, match='no_such_module'):
        loading.classes(['broken'])


def test_two_for_one_type_are_refused(installed):
    with pytest.raises(loading.PluginError, match='two plugins'):
        loading.classes(['virtual:instance', 'twin'])


def test_what_is_no_plugin_is_refused(installed):
    with pytest.raises(loading.PluginError, match='not a resource plugin'):
        loading.classes(['stranger'])


def test_only_what_is_named_is_loaded(installed):
    assert loading.classes(['twin']) == [Twin]
