# SPDX-License-Identifier: Apache-2.0
"""The sections ``[climate]`` and ``[service_user]`` of heat.conf, which heat-engine reads."""

from typing import Any

from keystoneauth1 import loading
from oslo_config import cfg

from climateclient.extension import options

GROUP = options.GROUP
#: The credentials of heat's service user; nova.conf and cinder.conf have the same section.
SERVICE_GROUP = 'service_user'
#: The shared options that heat does not use: a lease in a template always has its own dates.
_UNUSED = frozenset(
    (
        'reservation_start_date',
        'reservation_length_days',
        'reservation_length_hours',
        'reservation_length_minutes',
    )
)

OPTS = [
    *(each for each in options.OPTS if each.name not in _UNUSED),
    cfg.IntOpt(
        'lost_wake_up_seconds',
        default=40,
        min=1,
        help='Seconds after which the start of a server or volume of a stack that no process of '
        'nova or cinder has begun is requested again. More than [climate] wake_up_timeout of nova '
        'and cinder.',
    ),
    cfg.IntOpt(
        'lost_attach_seconds',
        default=600,
        min=1,
        help='Seconds after which the attachment of a volume of a reserved stack counts as lost '
        'if cinder does not show it complete: it is broken off and requested again. They count '
        'from the request, also if the update of the stack failed. More than the longest one '
        'takes.',
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of both sections; a second call does nothing."""
    conf.register_opts(OPTS, group=GROUP)
    loading.register_auth_conf_options(conf, SERVICE_GROUP)


def list_opts() -> list[tuple[str, list[Any]]]:
    """Return the options, for oslo-config-generator."""
    auth = [
        *loading.get_auth_common_conf_options(),
        *loading.get_auth_plugin_conf_options('password'),
    ]
    return [(GROUP, OPTS), (SERVICE_GROUP, auth)]
