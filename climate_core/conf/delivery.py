# SPDX-License-Identifier: Apache-2.0
"""Options of metrics, usage notifications and webhooks: sections ``[metrics]``, ``[usage]`` and
``[webhooks]``.
"""

import ipaddress
from collections.abc import Iterable

from oslo_config import cfg

from climate_core import webhooks

METRICS_GROUP = 'metrics'

METRICS_OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        'listen',
        sample_default='127.0.0.1:9464',
        help='Address and port on which climate-manager answers GET /metrics in the text format '
        'of Prometheus; an IPv6 address in brackets. Unset: it does not. It requires no '
        'credentials: choose an address that only the monitoring reaches.',
    ),
    cfg.FloatOpt(
        'overdue_seconds',
        default=30.0,
        min=1.0,
        help='Seconds after its time at which an event that no manager has claimed is overdue.',
    ),
    cfg.FloatOpt(
        'database_seconds',
        default=10.0,
        min=0.0,
        help='Minimum number of seconds between two counts in the database, however often the '
        'metrics are read.',
    ),
]


USAGE_GROUP = 'usage'

HOUR, DAY, OFF = 'hour', 'day', 'off'

USAGE_OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        'notify_every',
        default=HOUR,
        choices=[
            (HOUR, 'A notification lease.usage for each lease and hour.'),
            (DAY, 'A notification lease.usage for each lease and day (UTC).'),
            (OFF, 'None.'),
        ],
        help='How often the usage of the leases is reported, for a system that rates it. Periods '
        'that passed while no manager ran are reported afterwards, in order.',
    ),
]


WEBHOOKS_GROUP = 'webhooks'

WEBHOOKS_OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        'enabled',
        default=True,
        help='Whether leases may have webhooks and whether this manager calls them. Pending '
        'notifications are stored while it is off, and sent or dropped when it is on again.',
    ),
    cfg.ListOpt(
        'allowed_networks',
        default=[],
        help='Networks, as 10.1.0.0/16 or fd00::/8, that webhooks may be in although loopback, '
        'link-local, multicast, private and other special-purpose addresses (RFC 1918, RFC 6598, '
        'RFC 4193, RFC 6890) and those of the hosts of this cloud are rejected: the endpoints of '
        'the service catalog, the hosts of all URLs in this file, and this host.',
    ),
    cfg.ListOpt(
        'refused_networks',
        default=[],
        help='Networks that webhooks must not be in, beside those that are rejected by default: '
        'the public networks of the control plane. allowed_networks takes precedence.',
    ),
    cfg.FloatOpt(
        'timeout_seconds',
        default=10.0,
        min=0.1,
        max=300.0,
        help='Maximum duration of a call, from the resolution of host names to the answer.',
    ),
    cfg.IntOpt(
        'workers',
        default=16,
        min=1,
        max=256,
        help='Maximum number of concurrent webhook calls of one manager. At most a quarter of '
        'them are for the same project, and an eighth of them to the same host.',
    ),
    cfg.FloatOpt(
        'retry_seconds',
        default=5.0,
        min=0.1,
        help='Seconds before the second call of a webhook that did not answer with success. They '
        'are doubled with each further call.',
    ),
    cfg.FloatOpt(
        'retry_max_seconds',
        default=3600.0,
        min=1.0,
        help='Maximum number of seconds between two calls.',
    ),
    cfg.FloatOpt(
        'give_up_hours',
        default=24.0,
        min=0.0,
        help='Hours after which a notification that a webhook does not accept is dropped. The '
        'history of the lease records it.',
    ),
    cfg.StrOpt(
        'cafile',
        help='File with the certificates, in PEM, by which those of https webhooks are verified. '
        'Default: those that the system trusts.',
    ),
]


def parse_networks(
    texts: Iterable[str],
) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """Parse a list of networks.

    :raises oslo_config.cfg.Error: one is no network, or has bits of a host
    """
    try:
        return tuple(ipaddress.ip_network(text) for text in texts)
    except ValueError as exc:
        raise cfg.Error(f'[{WEBHOOKS_GROUP}] {exc}') from exc


def webhook_rules(conf: cfg.ConfigOpts) -> webhooks.WebhookRules:
    """Return the rules of climate.conf for the addresses of webhooks.

    :raises oslo_config.cfg.Error: an option names something that is no network
    """
    section = conf[WEBHOOKS_GROUP]
    return webhooks.WebhookRules(
        parse_networks(section.allowed_networks),
        parse_networks(section.refused_networks),
        section.enabled,
    )
