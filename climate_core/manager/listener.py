# SPDX-License-Identifier: Apache-2.0
"""Hear from Nova what happens to servers outside of their lease.

Nothing depends on it: a notification that is lost is made up for by the next comparison, see
:mod:`climate_core.manager.reconcile`. Facts: event types of unversioned notifications begin with
``compute.``, and the id is ``instance_id``; versioned ones have ``uuid`` in ``nova_object.data``
(nova/compute/utils.py ``notify_about_instance_usage``, ``notify_about_instance_action``).
"""

from collections.abc import Callable, Mapping
from typing import Any

import oslo_messaging as messaging
from oslo_config import cfg
from oslo_log import log

from climate_core.db import missing, store
from climate_core.db.engine import TROUBLE, Database

LOG = log.getLogger(__name__)

_TYPE = 'virtual:instance'
_PREFIX = 'compute.'
#: What keeps us from noting; the next comparison makes up for it.
_TROUBLE: tuple[type[Exception], ...] = (store.Stale, *TROUBLE)
_Note = Callable[[Database, str, str, str], bool]

#: Event type without prefix -> what is noted, and why. A soft-deleted server can be restored and
#: holds its host meanwhile, so it is not lost before Nova deletes it.
NOTED: Mapping[str, tuple[_Note, str]] = {
    'instance.delete.end': (
        missing.lose_resource,
        'The server was deleted outside of the lease.',
    ),
    'instance.evacuate': (
        missing.change_resource,
        'The server was evacuated from its host.',
    ),
}
_TYPES = '|'.join(kind.replace('.', r'\.') for kind in NOTED)


class Endpoint:
    """Notes deletions and evacuations of reserved servers."""

    filter_rule = messaging.NotificationFilter(event_type=rf'^(compute\.)?({_TYPES})$')

    def __init__(self, database: Database, nudge: Callable[[], None]) -> None:
        self._database = database
        self._nudge = nudge

    def info(
        self,
        context: Mapping[str, Any],  # noqa: ARG002
        publisher_id: str,
        event_type: str,
        payload: Mapping[str, Any],
        metadata: Mapping[str, Any],  # noqa: ARG002
    ) -> None:
        note, reason = NOTED[event_type.removeprefix(_PREFIX)]
        server_id = _server_id(payload)
        try:
            noted = server_id and note(self._database, _TYPE, server_id, reason)
        except _TROUBLE as exc:
            LOG.warning('%s of %s was not noted: %s', event_type, server_id, exc)
            return
        if noted:
            self._nudge()
            LOG.warning('%s told by %s: server %s', reason, publisher_id, server_id)


def _server_id(payload: Mapping[str, Any]) -> str | None:
    data = payload.get('nova_object.data', payload)
    found = data.get('uuid') or data.get('instance_id')
    return str(found) if found else None


def make(
    conf: cfg.ConfigOpts, database: Database, nudge: Callable[[], None] = lambda: None
) -> Any:
    """Make the listener of ``[nova_notifications]``; it hears nothing before its ``start``.

    :param nudge: called when something was written that the engine should look at
    :returns: an oslo.messaging notification listener, or None if it is turned off
    """
    options = conf.nova_notifications
    if not options.enabled:
        return None
    transport = messaging.get_notification_transport(conf, url=options.transport_url)
    targets = [
        messaging.Target(topic=topic, exchange=options.exchange) for topic in options.topics
    ]
    return messaging.get_notification_listener(
        transport, targets, [Endpoint(database, nudge)], executor='threading', pool=options.pool
    )
