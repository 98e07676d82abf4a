# SPDX-License-Identifier: Apache-2.0
"""Options of the notifications of Nova, Cinder and Heat, one section for each of them."""

import types

from oslo_config import cfg


def _section(
    service: str,
    lost: str,
    topics: list[str],
    exchange: str,
    pool: str,
    plugin: str = '',
) -> types.SimpleNamespace:
    """Return what a module of options has: ``GROUP`` and ``OPTS``.

    :param lost: what of a lease the notifications are about
    :param plugin: without which nothing is listened to
    """
    needs = f' Nothing is listened to unless [manager] plugins names {plugin}.' if plugin else ''
    options: list[cfg.Opt] = [
        cfg.BoolOpt(
            'enabled',
            default=True,
            help=f'Listen to the notifications of {service}, so that a lease knows at once when '
            f'one of its {lost}, and when what it asked {service} for is done. Without it the '
            'comparison of section [reconcile] finds out later, or the next look, see '
            f'first_look_seconds.{needs}',
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
            help='Name of the pool of listeners. It gives Climate queues of its own, so that '
            'others who listen get every notification, too. It must be another than those of the '
            'other services: listeners of one pool take the messages away from each other.',
        ),
    ]
    return types.SimpleNamespace(GROUP=f'{service.lower()}_notifications', OPTS=options)


# Both unversioned and versioned notifications are understood.
NOVA = _section(
    'Nova', 'servers is deleted', ['notifications', 'versioned_notifications'], 'nova', 'climate'
)
# Cinder's control_exchange is openstack unless cinder.conf says it.
CINDER = _section(
    'Cinder',
    'volumes is deleted',
    ['notifications'],
    'openstack',
    'climate-cinder',
    'virtual:volume',
)
HEAT = _section(
    'Heat',
    'stacks is deleted or abandoned',
    ['notifications'],
    'heat',
    'climate-heat',
    'virtual:stack',
)
