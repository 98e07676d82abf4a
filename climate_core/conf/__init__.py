# SPDX-License-Identifier: Apache-2.0
"""The configuration: an object that is passed, so that one process can hold several services.

The modules of this package have the options, and :func:`list_sections` lists them.
"""

import contextlib
import functools
import importlib
import importlib.metadata
import warnings
from collections.abc import Iterator, Sequence

import oslo_policy.opts
from oslo_config import cfg
from oslo_db import options as database
from oslo_log import log
from oslo_service import backend

# Importing oslo.messaging chooses the backend of oslo.service for the whole process, and its
# default is still eventlet. The hook decides only where nothing was decided yet.
backend.register_backend_default_hook(lambda: backend.BackendType.THREADING)

with warnings.catch_warnings():
    # It loads eventlet where that is installed, beside Nova perhaps, which warns all who do so.
    warnings.filterwarnings('ignore', r'\s*Eventlet is deprecated')
    import oslo_messaging.opts

from climate_core import packages  # noqa: E402
from climate_core.conf import api, cloud, delivery, limits, manager  # noqa: E402

#: The options by section of climate.conf, in the order of the sample file.
_SECTIONS: tuple[tuple[str | None, Sequence[cfg.Opt]], ...] = (
    (manager.PATHS_GROUP, manager.PATHS_OPTS),
    (api.GROUP, api.OPTS),
    (manager.GROUP, manager.OPTS),
    (manager.ENGINE_GROUP, manager.ENGINE_OPTS),
    (cloud.GROUP, cloud.OPTS),
    (cloud.RECONCILE_GROUP, cloud.RECONCILE_OPTS),
    (manager.QUEUE_GROUP, manager.QUEUE_OPTS),
    (cloud.NOVA_NOTIFICATIONS.GROUP, cloud.NOVA_NOTIFICATIONS.OPTS),
    (cloud.CINDER_NOTIFICATIONS.GROUP, cloud.CINDER_NOTIFICATIONS.OPTS),
    (cloud.HEAT_NOTIFICATIONS.GROUP, cloud.HEAT_NOTIFICATIONS.OPTS),
    (delivery.METRICS_GROUP, delivery.METRICS_OPTS),
    (manager.UPGRADE_LEVELS_GROUP, manager.UPGRADE_LEVELS_OPTS),
    (delivery.WEBHOOKS_GROUP, delivery.WEBHOOKS_OPTS),
    (limits.GROUP, limits.OPTS),
    (delivery.USAGE_GROUP, delivery.USAGE_OPTS),
)

PROJECT = 'climate'
#: Groups that oslo.messaging reads from the configuration that it is given but registers on the
#: global one alone: module -> its list of options, called as the group.
_UNREGISTERED = {
    'oslo_messaging._metrics.client': 'oslo_messaging_metrics',
    'oslo_messaging._tracing.client': 'oslo_messaging_tracing',
}
_MIDDLEWARE = frozenset({'oslo_middleware', 'cors', 'healthcheck'})
#: Where climate.conf is looked for if no file is named, as oslo.config does.
PLACES = ('~/.climate', '~', '/etc/climate', '/etc')
#: Where the data is when ``[database] connection`` says nothing: good for one machine.
DATABASE = 'sqlite:///$state_path/climate.sqlite'
#: How many connections stay open: as many as a manager with the default workers uses at once.
CONNECTIONS = 20


def load(
    argv: Sequence[str] = (),
    config_files: Sequence[str] | None = None,
    cli: Sequence[cfg.Opt] = (),
    has_api: bool = True,
) -> cfg.ConfigOpts:
    """Read the configuration.

    :param argv: the command line without the program's name
    :param config_files: the files to read, later ones win; None looks for climate.conf in
        ``~/.climate``, ``~``, ``/etc/climate`` and ``/etc``
    :param cli: options and sub-commands of this program's command line
    :param has_api: False: without the options of libraries that only the API uses
    :returns: a new object with every option of Climate and of the libraries it uses
    """
    conf = cfg.ConfigOpts()
    register(conf, has_api)
    conf.register_cli_opts(cli)
    conf(
        list(argv),
        project=PROJECT,
        version=importlib.metadata.version('openstack-climate'),
        default_config_files=None if config_files is None else list(config_files),
    )
    return conf


def list_sections() -> list[tuple[str | None, Sequence[cfg.Opt]]]:
    """Return the options by section of climate.conf, with those of reservation packages."""
    found = [section for package in packages.list_packages() for section in package.list_options()]
    return [*_SECTIONS, *found]


def register(conf: cfg.ConfigOpts, has_api: bool = True) -> None:
    """Register every option on ``conf``, with Climate's defaults for its libraries.

    :param has_api: as of :func:`load`
    """
    for group, opts in list_sections():
        # keystoneauth registers what it requires itself, when a request is sent to the cloud:
        # neither the API nor the database commands need credentials.
        conf.register_opts([opt for opt in opts if not opt.required], group=group)
    cloud.register_oslo_limit(conf)
    log.register_options(conf)
    for group, opts in [*_of_libraries(), *(_of_api() if has_api else ())]:
        conf.register_opts(opts, group=group)
    conf.set_default('connection', DATABASE, group='database')
    conf.set_default('max_pool_size', CONNECTIONS, group='database')
    conf.set_default('control_exchange', PROJECT)


@functools.cache
def _of_libraries() -> list[tuple[str | None, list[cfg.Opt]]]:
    """Return the options that libraries register themselves, but later than a test sets them."""
    return [
        *database.list_opts(),
        *oslo_messaging.opts.list_opts(),
        *_of_messaging(),
        *oslo_policy.opts.list_opts(),
    ]


@functools.cache
def _of_api() -> list[tuple[str | None, list[cfg.Opt]]]:
    """Return those of the libraries of the API: to import them takes 12 MiB of a manager."""
    from keystonemiddleware import opts as authtoken
    from oslo_middleware import opts as middleware

    groups = [entry for entry in middleware.list_opts() if entry[0] in _MIDDLEWARE]
    return [*authtoken.list_auth_token_opts(), *groups]


def _of_messaging() -> Iterator[tuple[str, list[cfg.Opt]]]:
    for module, group in _UNREGISTERED.items():
        # Releases before 18 have no tracing.
        with contextlib.suppress(ImportError):
            yield group, getattr(importlib.import_module(module), group)
