# SPDX-License-Identifier: Apache-2.0
"""Options of the notifications of Cinder about volumes: section ``[cinder_notifications]``."""

from oslo_config import cfg

GROUP = 'cinder_notifications'

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        'enabled',
        default=True,
        help='Listen to the notifications of Cinder, so that a lease knows at once when one of '
        'its volumes is deleted. Without it the comparison of section [reconcile] finds out '
        'later. Nothing is listened to unless [manager] plugins names virtual:volume.',
    ),
    cfg.StrOpt(
        'transport_url',
        secret=True,
        help="The message bus of Cinder. Unset: Climate's own.",
    ),
    cfg.ListOpt('topics', default=['notifications'], help='Topics that Cinder notifies on.'),
    cfg.StrOpt(
        'exchange',
        default='openstack',
        help='The control_exchange of Cinder, which is openstack unless cinder.conf says it.',
    ),
    cfg.StrOpt(
        'pool',
        default='climate-cinder',
        help='Name of the pool of listeners. It gives Climate queues of its own, so that others '
        'who listen get every notification, too. It must be another than those of the other '
        'services: listeners of one pool take the messages away from each other.',
    ),
]
