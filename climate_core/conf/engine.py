# SPDX-License-Identifier: Apache-2.0
"""Options of the event engine."""

from oslo_config import cfg

GROUP = 'engine'

OPTS: list[cfg.Opt] = [
    cfg.IntOpt(
        'workers',
        default=24,
        min=1,
        max=256,
        help='How many threads one manager has to call services for events. As many events again '
        'are claimed meanwhile, so that many are written in one transaction.',
    ),
    cfg.IntOpt(
        'service_share',
        default=75,
        min=1,
        max=100,
        help='How many percent of the workers that others leave may work on events that call one '
        'service: nova, cinder, heat, neutron, placement, keystone, or the external one of '
        '[limits]. One that does not answer keeps each of them until [cloud] timeout, and leases '
        'that need others start meanwhile. Events that wait for a thread have the same share of '
        'their number. 100: a service may have all of them.',
    ),
    cfg.FloatOpt(
        'claim_ttl',
        default=30.0,
        min=1.0,
        help='Seconds after which the work of a manager that died is taken up by another, or by '
        'itself after a restart. A manager that lives renews its claims three times as often. '
        'Notifications that it left are sent as soon by a manager that is started, is told of a '
        'change or sends some itself, and by one that does nothing else within idle_seconds.',
    ),
    cfg.FloatOpt(
        'idle_seconds',
        default=600.0,
        min=1.0,
        help='The longest sleep of the engine. It wakes up for the next event by itself and is '
        'told about new ones; this is for the case that the message got lost together with '
        'the manager that sent it, and for clocks that are set. Have the same value on all '
        'managers: of what is due later than twice this they do not tell each other.',
    ),
    cfg.FloatOpt(
        'retry_seconds',
        default=2.0,
        min=0.1,
        help='Wait before the second attempt at something that failed for a while. It is doubled '
        'with each further attempt.',
    ),
    cfg.FloatOpt(
        'retry_max_seconds',
        default=120.0,
        min=1.0,
        help='The longest wait between two attempts.',
    ),
    cfg.FloatOpt(
        'grace_seconds',
        default=30.0,
        min=0.0,
        help='How long a manager that is told to stop lets the work in progress go on. What is '
        'not finished then is taken up when its claim expires.',
    ),
    cfg.FloatOpt(
        'prepare_seconds',
        default=60.0,
        min=0.0,
        max=600.0,
        help='How long before the start of a lease each manager begins to ask Keystone for the '
        'token of its owner, at a moment that chance chooses, so that only the wake-up is sent at '
        'the start. A trust that Keystone refuses is told then (the notification '
        'lease.event.start_lease.warning). 0 turns it off.',
    ),
]
