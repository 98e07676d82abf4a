# SPDX-License-Identifier: Apache-2.0
"""Options of the connection to the cloud: section ``[cloud]``."""

from keystoneauth1 import loading
from oslo_config import cfg

GROUP = 'cloud'

_OWN = [
    cfg.StrOpt(
        'region_name',
        help='Region whose endpoints are used. Unset: the first one in the catalogue.',
    ),
    cfg.ListOpt(
        'valid_interfaces',
        default=['internal', 'public'],
        help='Kinds of endpoint to use, the preferred one first.',
    ),
    cfg.URIOpt(
        'compute_endpoint_override',
        schemes=['http', 'https'],
        help='URL of the compute API, for example http://controller/compute/v2.1. '
        'Unset: the one in the catalogue.',
    ),
    cfg.URIOpt(
        'block_storage_endpoint_override',
        schemes=['http', 'https'],
        help='URL of the block storage API without a project, for example '
        'http://controller/volume/v3. Unset: the one in the catalogue.',
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
        'taken for lost ones.',
    ),
    cfg.IntOpt(
        'owner_cache_size',
        default=512,
        min=1,
        help='Number of lease owners whose tokens and trusts are kept in memory.',
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
    *_OWN,
    *loading.get_auth_common_conf_options(),
    *loading.get_auth_plugin_conf_options('password'),
    *_session_options(),
]
