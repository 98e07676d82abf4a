# SPDX-License-Identifier: Apache-2.0
"""The section ``[climate]`` of nova.conf, read by nova-api and by nova-compute."""

import datetime
from typing import Any

from keystoneauth1 import loading
from oslo_config import cfg

from nova_ext import hints

GROUP = 'climate'

OPTS = [
    cfg.StrOpt(
        'reservation_start_date',
        default='now',
        help='Start of a reservation whose hints name none: "now", or a date.',
    ),
    cfg.IntOpt(
        'reservation_length_days',
        default=30,
        min=0,
        help='Days from the start to the end of a reservation whose hints name no end.',
    ),
    cfg.IntOpt('reservation_length_hours', default=0, min=0, help='Hours added to those days.'),
    cfg.IntOpt(
        'reservation_length_minutes', default=0, min=0, help='Minutes added to those days.'
    ),
    cfg.ListOpt(
        'stash_keys',
        default=[],
        secret=True,
        help='Keys that protect what a reserved server needs at its start and nova keeps '
        'nowhere: the admin password, and files to inject. Each is 32 bytes in URL-safe base64 '
        '(python -c "from cryptography.fernet import Fernet as F; '
        'print(F.generate_key().decode())"). The first encrypts, all decrypt; every '
        'nova-compute needs the same. With no key the password is not kept: the server starts '
        'without it.',
    ),
    cfg.IntOpt(
        'wake_up_timeout',
        default=600,
        min=1,
        help='Seconds after which a wake_up that no nova-compute has taken up counts as lost, '
        'so that it may be asked for again.',
    ),
]


def _adapter_opts() -> list[cfg.Opt]:
    opts = loading.get_adapter_conf_options(include_deprecated=False)
    # Three further tries wait 0.5 + 1 + 2 seconds. With the timeout of the session below, a lease
    # service that never answers holds a boot for about two minutes.
    cfg.set_defaults(
        opts,
        service_type='reservation',
        valid_interfaces=['internal', 'public'],
        connect_retries=3,
        status_code_retries=3,
    )
    return opts


def _session_opts() -> list[cfg.Opt]:
    opts = loading.get_session_conf_options()
    cfg.set_defaults(opts, timeout=30)
    return opts


_ALL = [*OPTS, *_session_opts(), *_adapter_opts()]


def register(conf: cfg.ConfigOpts) -> None:
    """Make the section known; a second time does nothing."""
    conf.register_opts(_ALL, group=GROUP)


def defaults(conf: cfg.ConfigOpts) -> hints.Defaults:
    """Give what the hints of a user may leave out."""
    section = conf[GROUP]
    length = datetime.timedelta(
        days=section.reservation_length_days,
        hours=section.reservation_length_hours,
        minutes=section.reservation_length_minutes,
    )
    return hints.Defaults(section.reservation_start_date, length)


def list_opts() -> list[tuple[str, list[Any]]]:
    """Give the options to oslo-config-generator."""
    return [(GROUP, _ALL)]
