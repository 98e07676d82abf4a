# SPDX-License-Identifier: Apache-2.0
"""Load and create the plugins of climate.conf."""

import collections
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NoReturn

from oslo_config import cfg
from stevedore import named

from climate_core import packages
from climate_core.plugins.base import ResourcePlugin

if TYPE_CHECKING:
    from climate_core.cloud import Cloud

NAMESPACE = 'climate.resource.plugins'


class PluginError(Exception):
    """The plugins of climate.conf cannot be used; the service must not start."""


def load_classes(names: Sequence[str]) -> list[type[ResourcePlugin]]:
    """Return the plugin classes of these names, in this order.

    :raises PluginError: one is not installed, cannot be loaded, is no plugin, or two of them
        are for the same type of resource
    """
    found: named.NamedExtensionManager[ResourcePlugin] = named.NamedExtensionManager(
        NAMESPACE,
        names,
        name_order=True,
        on_load_failure_callback=_reject_broken,
        on_missing_entrypoints_callback=_reject_missing,
    )
    chosen = [extension.plugin for extension in found]
    for plugin in chosen:
        if not (isinstance(plugin, type) and issubclass(plugin, ResourcePlugin)):
            raise PluginError(f'{plugin!r} is not a resource plugin')
    plugins = with_forms(chosen)
    types = collections.Counter(plugin.resource_type for plugin in plugins)
    twice = sorted(each for each, count in types.items() if count > 1)
    if twice:
        raise PluginError(f'two plugins of [manager] plugins are for {", ".join(twice)}')
    return plugins


def with_forms(plugins: Iterable[type[ResourcePlugin]]) -> list[type[ResourcePlugin]]:
    """Return plugins, each with the one for the other form of its type if it has one."""
    companions = {
        resource_type: companion
        for package in packages.list_packages()
        for resource_type, companion in package.list_companion_plugins().items()
    }
    found: list[type[ResourcePlugin]] = []
    for plugin in plugins:
        found.append(plugin)
        if plugin.resource_type in companions:
            found.append(companions[plugin.resource_type])
    return found


def load_plugins(conf: cfg.ConfigOpts, cloud: 'Cloud') -> dict[str, ResourcePlugin]:
    """Create the plugins of ``[manager] plugins``, by their types of resource.

    Registers the options of each in a section named after its type; raises :exc:`PluginError`.
    """
    plugins = {}
    for plugin in load_classes(conf.manager.plugins):
        conf.register_opts(plugin.options, group=plugin.resource_type)
        plugins[plugin.resource_type] = plugin(conf, cloud)
    return plugins


def list_local_types(
    plugins: Iterable[ResourcePlugin | type[ResourcePlugin]],
) -> frozenset[str]:
    """Return the types whose reservation calls no service."""
    return frozenset(plugin.resource_type for plugin in plugins if plugin.reserves_locally)


def _reject_broken(_manager: object, entry_point: object, error: BaseException) -> NoReturn:
    raise PluginError(f'the plugin {entry_point} cannot be loaded: {error}') from error


def _reject_missing(names: Iterable[str]) -> NoReturn:
    listed = ', '.join(sorted(names))
    raise PluginError(f'[manager] plugins names what is not installed: {listed}')
