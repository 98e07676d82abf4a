# SPDX-License-Identifier: Apache-2.0
"""The options that the section ``[climate]`` has in nova.conf, cinder.conf and heat.conf alike."""

import datetime
from collections.abc import Sequence

from keystoneauth1 import loading
from oslo_config import cfg

from climateclient.extension import hints

GROUP = 'climate'

_LENGTHS = [
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
]


def _adapter_opts() -> list[cfg.Opt]:
    opts = loading.get_adapter_conf_options(include_deprecated=False)
    # Three further tries wait 0.5 + 1 + 2 seconds. With the timeout of the session below, a lease
    # service that never answers holds a request for about two minutes.
    cfg.set_defaults(
        opts,
        service_type='reservation',
        valid_interfaces=['internal', 'public'],
        connect_retries=3,
        status_code_retries=3,
    )
    return list(opts)


def _session_opts() -> list[cfg.Opt]:
    opts = loading.get_session_conf_options()
    cfg.set_defaults(opts, timeout=30)
    return list(opts)


#: All options, for :meth:`oslo_config.cfg.ConfigOpts.register_opts`.
OPTS = [*_LENGTHS, *_session_opts(), *_adapter_opts()]

#: For the services whose API has an action that wakes a resource up.
WAKE_UP_TIMEOUT = cfg.IntOpt(
    'wake_up_timeout',
    default=30,
    min=1,
    help='Seconds after which a wake-up that no process has begun to serve may be repeated. '
    'Until then the API answers 409, since the message may not have arrived. A repeated wake-up '
    'never starts a server or creates a volume twice.',
)


def rules(conf: cfg.ConfigOpts, on_end: Sequence[str]) -> hints.HintRules:
    """Return the rules for the hints of a service.

    :param conf: with :data:`OPTS` registered in ``[climate]``
    :param on_end: the actions that the service's resources can have at the end of a lease
    """
    section = conf[GROUP]
    length = datetime.timedelta(
        days=section.reservation_length_days,
        hours=section.reservation_length_hours,
        minutes=section.reservation_length_minutes,
    )
    return hints.HintRules(on_end, section.reservation_start_date, length)
