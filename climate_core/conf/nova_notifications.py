# SPDX-License-Identifier: Apache-2.0
"""Options of the notifications of Nova about servers: section ``[nova_notifications]``."""

from oslo_config import cfg

GROUP = 'nova_notifications'

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        'enabled',
        default=True,
        help='Listen to the notifications of Nova, so that a lease knows at once when one of its '
        'servers is deleted. Without it the comparison of section [reconcile] finds out later.',
    ),
    cfg.StrOpt(
        'transport_url',
        secret=True,
        help="The message bus of Nova. Unset: Climate's own.",
    ),
    cfg.ListOpt(
        'topics',
        default=['notifications', 'versioned_notifications'],
        help='Topics that Nova notifies on, unversioned and versioned notifications alike.',
    ),
    cfg.StrOpt('exchange', default='nova', help='The control_exchange of Nova.'),
    cfg.StrOpt(
        'pool',
        default='climate',
        help='Name of the pool of listeners. It gives Climate queues of its own, so that others '
        'who listen get every notification, too. It must be another than those of the other '
        'services: listeners of one pool take the messages away from each other.',
    ),
]
