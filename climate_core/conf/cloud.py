# SPDX-License-Identifier: Apache-2.0
"""Options of the cloud: sections ``[cloud]``, ``[oslo_limit]``, ``[nova_notifications]``,
``[cinder_notifications]``, ``[heat_notifications]`` and ``[reconcile]``.

oslo.limit registers its options on the global configuration alone, so they are registered on
that of Climate here. The sample file has them from the namespace of oslo.limit.
"""

import types

import oslo_limit.opts
from keystoneauth1 import loading
from oslo_config import cfg

GROUP = 'cloud'

_CONNECTION_OPTS = [
    cfg.StrOpt(
        'region_name',
        help='Region whose endpoints are used. Unset: the first one in the catalog.',
    ),
    cfg.ListOpt(
        'valid_interfaces',
        default=['internal', 'public'],
        help='Kinds of endpoint to use, the preferred one first.',
    ),
    cfg.URIOpt(
        'compute_endpoint_override',
        schemes=['http', 'https'],
        help='URL of the compute API, for example http://controller/compute/v2.1. Unset: the one '
        'in the catalog.',
    ),
    cfg.URIOpt(
        'block_storage_endpoint_override',
        schemes=['http', 'https'],
        help='URL of the block storage API without a project, for example '
        'http://controller/volume/v3. Unset: the one in the catalog.',
    ),
    cfg.ListOpt(
        'trust_roles',
        default=[],
        help='Names of the roles that the owner of a lease delegates to the service. Empty: '
        'every role of the token that creates the lease, except manager, service and those whose '
        'name contains admin. If administrator roles of the cloud have other names, list the '
        'roles that servers, volumes and stacks need, for example member,reader,'
        'heat_stack_owner,creator.',
    ),
    cfg.BoolOpt(
        'sweep_trusts',
        default=False,
        help='Delete trusts that are delegated to the service user and belong to no lease. Turn '
        'it on only if no other installation uses the same service user: its trusts would be '
        'deleted, too.',
    ),
    cfg.IntOpt(
        'owner_cache_size',
        default=512,
        min=1,
        help='Number of lease owners whose tokens and trusts are cached in memory.',
    ),
]


def _session_options() -> list[cfg.Opt]:
    options = loading.get_session_conf_options()
    for option in options:
        if option.dest == 'timeout':
            option.default = 60
            option.help = 'Seconds to wait for an answer of another service.'
    return options


#: The identity of the service user: ``auth_type = password`` and its options. The plugin must be
#: one that can use a trust, as the password plugins can.
OPTS: list[cfg.Opt] = [
    *_CONNECTION_OPTS,
    *loading.get_auth_common_conf_options(),
    *loading.get_auth_plugin_conf_options('password'),
    *_session_options(),
]


OSLO_LIMIT_GROUP = 'oslo_limit'
_ENDPOINT_NAMES = frozenset(
    {
        'endpoint_id',
        'endpoint_service_name',
        'endpoint_service_type',
        'endpoint_region_name',
        'endpoint_interface',
    }
)


def register_oslo_limit(conf: cfg.ConfigOpts) -> None:
    """Register ``[oslo_limit]``; oslo.limit finds the endpoint of Climate by its service type."""
    adapter = loading.get_adapter_conf_options(include_deprecated=False)
    ((_, options),) = oslo_limit.opts.list_opts()
    own = [option for option in options if option.dest in _ENDPOINT_NAMES]
    for group in (
        adapter,
        own,
        loading.get_session_conf_options(),
        loading.get_auth_common_conf_options(),
        loading.get_auth_plugin_conf_options('password'),
    ):
        # As in section [cloud]: keystoneauth registers what it requires by itself.
        conf.register_opts([option for option in group if not option.required], OSLO_LIMIT_GROUP)
    conf.set_default('endpoint_service_type', 'reservation', OSLO_LIMIT_GROUP)


def _notification_section(
    service: str,
    lost: str,
    topics: list[str],
    exchange: str,
    pool: str,
    plugin: str = '',
) -> types.SimpleNamespace:
    """Return ``GROUP`` and ``OPTS`` of the notifications of a service.

    :param lost: the event, for the help
    :param plugin: the plugin without which the manager does not listen
    """
    needs = f' Climate listens only if [manager] plugins names {plugin}.' if plugin else ''
    options: list[cfg.Opt] = [
        cfg.BoolOpt(
            'enabled',
            default=True,
            help=f'Listen to the notifications of {service}, so that Climate detects immediately '
            f'when one of the {lost}, and when a requested action completes. Without it the '
            'reconciliation (section [reconcile]) or the next poll detects it later, see '
            f'first_poll_seconds.{needs}',
        ),
        cfg.StrOpt(
            'transport_url',
            secret=True,
            help=f"The message bus of {service}. Unset: Climate's own.",
        ),
        cfg.ListOpt('topics', default=topics, help=f'Topics that {service} notifies on.'),
        cfg.StrOpt('exchange', default=exchange, help=f'The control_exchange of {service}.'),
        cfg.StrOpt(
            'pool',
            default=pool,
            help='Name of the pool of listeners. The pool gives Climate dedicated queues, so that '
            'other listeners get every notification, too. It must differ from the pools of the '
            'other services: each message goes to one listener of a pool only.',
        ),
    ]
    return types.SimpleNamespace(GROUP=f'{service.lower()}_notifications', OPTS=options)


# Both unversioned and versioned notifications are understood.
NOVA_NOTIFICATIONS = _notification_section(
    'Nova',
    'servers of a lease is deleted',
    ['notifications', 'versioned_notifications'],
    'nova',
    'climate',
)
# Cinder's control_exchange is openstack by default.
CINDER_NOTIFICATIONS = _notification_section(
    'Cinder',
    'volumes of a lease is deleted',
    ['notifications'],
    'openstack',
    'climate-cinder',
    'virtual:volume',
)
HEAT_NOTIFICATIONS = _notification_section(
    'Heat',
    'stacks of a lease is deleted or abandoned',
    ['notifications'],
    'heat',
    'climate-heat',
    'virtual:stack',
)


#: The sections of all services whose notifications are received.
NOTIFICATION_SECTIONS = (NOVA_NOTIFICATIONS, CINDER_NOTIFICATIONS, HEAT_NOTIFICATIONS)

RECONCILE_GROUP = 'reconcile'

RECONCILE_OPTS: list[cfg.Opt] = [
    cfg.FloatOpt(
        'interval',
        default=600.0,
        min=1.0,
        help='Seconds between two reconciliations of the leases with the resources that exist. '
        'Each manager reconciles them by itself, at its own times.',
    ),
]
