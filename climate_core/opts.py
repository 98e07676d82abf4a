# SPDX-License-Identifier: Apache-2.0
"""List every option of Climate, for ``oslo-config-generator --namespace climate``.

The options of the libraries come from their own namespaces, see etc/climate/config-generator.conf.
"""

import oslo_messaging as messaging
import stevedore
from oslo_config import cfg
from oslo_db import options as database

from climate_core import conf as configuration
from climate_core.plugins import base, loading

Options = list[tuple[str, list[cfg.Opt]]]


def list_opts() -> Options:
    """List the options of the service and of the installed plugins, by section."""
    own = [(group or 'DEFAULT', list(opts)) for group, opts in configuration.list_sections()]
    return own + _of_plugins()


def set_defaults() -> None:
    """Show our defaults of the libraries' options in the sample. Only the generator calls this."""
    messaging.set_transport_defaults(configuration.PROJECT)
    cfg.set_defaults(
        database.database_opts,
        connection=configuration.DATABASE,
        max_pool_size=configuration.CONNECTIONS,
    )


def _of_plugins() -> Options:
    manager: stevedore.ExtensionManager = stevedore.ExtensionManager(loading.NAMESPACE)
    plugins: list[type[base.ResourcePlugin]] = loading.with_forms(
        extension.plugin for extension in manager
    )
    return [(plugin.resource_type, list(plugin.options)) for plugin in plugins if plugin.options]
