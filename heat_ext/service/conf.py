# SPDX-License-Identifier: Apache-2.0
"""The sections ``[climate]`` and ``[service_user]`` of heat.conf, read by heat-engine."""

from typing import Any

from keystoneauth1 import loading
from oslo_config import cfg

from climateclient.extension import options

GROUP = options.GROUP
#: Whose token goes beside that of the stack's owner, in the words of nova.conf and cinder.conf.
SERVICE_GROUP = 'service_user'
#: What of the shared options has no meaning in heat: there a lease always says its own dates.
_FOREIGN = frozenset(
    (
        'reservation_start_date',
        'reservation_length_days',
        'reservation_length_hours',
        'reservation_length_minutes',
    )
)

OPTS = [each for each in options.OPTS if each.name not in _FOREIGN]


def register(conf: cfg.ConfigOpts) -> None:
    """Make the sections known; a second time does nothing."""
    conf.register_opts(OPTS, group=GROUP)
    loading.register_auth_conf_options(conf, SERVICE_GROUP)


def list_opts() -> list[tuple[str, list[Any]]]:
    """Give the options to oslo-config-generator."""
    auth = [
        *loading.get_auth_common_conf_options(),
        *loading.get_auth_plugin_conf_options('password'),
    ]
    return [(GROUP, OPTS), (SERVICE_GROUP, auth)]
