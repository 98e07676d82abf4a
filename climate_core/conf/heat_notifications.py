# SPDX-License-Identifier: Apache-2.0
"""Options of the notifications of Heat about stacks: section ``[heat_notifications]``."""

from oslo_config import cfg

GROUP = 'heat_notifications'

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        'enabled',
        default=True,
        help='Listen to the notifications of Heat, so that a lease knows at once when one of its '
        'stacks is deleted or abandoned. Without it the comparison of section [reconcile] finds '
        'out later. Nothing is listened to unless [manager] plugins names virtual:stack.',
    ),
    cfg.StrOpt(
        'transport_url',
        secret=True,
        help="The message bus of Heat. Unset: Climate's own.",
    ),
    cfg.ListOpt('topics', default=['notifications'], help='Topics that Heat notifies on.'),
    cfg.StrOpt('exchange', default='heat', help='The control_exchange of Heat.'),
    cfg.StrOpt(
        'pool',
        default='climate-heat',
        help='Name of the pool of listeners. It gives Climate queues of its own, so that others '
        'who listen get every notification, too. It must be another than those of the other '
        'services: listeners of one pool take the messages away from each other.',
    ),
]
