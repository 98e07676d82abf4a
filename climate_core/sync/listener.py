# SPDX-License-Identifier: Apache-2.0
"""Record the notifications of Nova, Cinder and Heat about changes outside of a lease.

Nothing depends on it: the next comparison makes up for a notification that is lost, see
:mod:`climate_core.sync.reconcile`. Facts: Nova's event types of unversioned notifications begin
with ``compute.``, and the id is ``instance_id``; versioned ones have ``uuid`` in
``nova_object.data`` (nova/compute/utils.py ``notify_about_instance_usage``,
``notify_about_instance_action``). Cinder's have ``volume_id`` (cinder/volume/volume_utils.py
``notify_about_volume_usage``). Heat's have ``stack_identity``, the id alone, and begin with
``orchestration.`` (heat/engine/notification/stack.py, heat/engine/api.py
``format_notification_body``); abandoning a stack is told as its deletion. That no backend takes a
volume is told by cinder-scheduler with the priority ``error``
(cinder/scheduler/flows/create_volume.py).

Each service has a pool of listeners of its own. RabbitMQ deals the messages of one pool out to
its listeners, and a listener drops a message that it does not note.
"""

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import oslo_messaging as messaging
from oslo_config import cfg
from oslo_log import log

from climate_core.conf import notifications
from climate_core.db import missing, store
from climate_core.db.engine import TROUBLE, Database
from climate_core.threads import MessageServer

LOG = log.getLogger(__name__)

#: The errors after which a notification is dropped; the next comparison makes up for it.
_TROUBLE: tuple[type[Exception], ...] = (store.Stale, *TROUBLE)
_Note = Callable[[Database, str, str, str], bool]
_LOST: _Note = missing.mark_resource_lost


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """The notifications about one type of resource.

    :param group: the section with the options
    :param ids: which fields of a payload may have the id of the resource
    :param noted: event type without prefix -> what is noted, and why
    :param prefix: what event types may begin with
    """

    resource_type: str
    group: str
    ids: Sequence[str]
    noted: Mapping[str, tuple[_Note, str]]
    prefix: str = ''


#: A soft-deleted server can be restored and holds its host meanwhile, so it is not lost before
#: Nova deletes it.
SERVERS = Source(
    'virtual:instance',
    notifications.NOVA.GROUP,
    ('uuid', 'instance_id'),
    {
        'instance.delete.end': (_LOST, 'The server was deleted outside of the lease.'),
        'instance.evacuate': (missing.change_resource, 'The server was evacuated from its host.'),
    },
    prefix='compute.',
)
VOLUMES = Source(
    'virtual:volume',
    notifications.CINDER.GROUP,
    ('volume_id',),
    {
        'volume.delete.end': (_LOST, 'The volume was deleted outside of the lease.'),
        'scheduler.create_volume': (_LOST, 'Cinder found no backend for the volume.'),
    },
)
#: Nested stacks tell their deletion, too, but are not reserved.
STACKS = Source(
    'virtual:stack',
    notifications.HEAT.GROUP,
    ('stack_identity',),
    {
        'orchestration.stack.delete.end': (
            _LOST,
            'The stack was deleted or abandoned outside of the lease.',
        ),
    },
)
SOURCES = (SERVERS, VOLUMES, STACKS)


class NotificationEndpoint:
    """Note what happens to one type of resource.

    :param nudge: called when something was written that the engine should look at
    """

    def __init__(self, source: Source, database: Database, nudge: Callable[[], None]) -> None:
        types = '|'.join(map(re.escape, source.noted))
        self.filter_rule = messaging.NotificationFilter(
            event_type=rf'^({re.escape(source.prefix)})?({types})$'
        )
        self._source = source
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
        source = self._source
        note, reason = source.noted[event_type.removeprefix(source.prefix)]
        data = payload.get('nova_object.data', payload)
        resource_id = next(filter(None, map(data.get, source.ids)), None)
        try:
            noted = resource_id and note(self._database, source.resource_type, resource_id, reason)
        except _TROUBLE as exc:
            LOG.warning('%s of %s was not noted: %s', event_type, resource_id, exc)
            return
        if noted:
            self._nudge()
            LOG.warning('%s told by %s: %s', reason, publisher_id, resource_id)

    #: Cinder's scheduler tells that a volume has no backend with this priority.
    error = info


def make(
    conf: cfg.ConfigOpts,
    database: Database,
    resource_types: Collection[str],
    nudge: Callable[[], None] = lambda: None,
) -> list[MessageServer]:
    """Make the listeners for these types; they hear nothing before their ``start``.

    :param nudge: called when something was written that the engine should look at
    :returns: none for what is turned off
    """
    return [
        _listener(conf, source.group, NotificationEndpoint(source, database, nudge))
        for source in SOURCES
        if source.resource_type in resource_types and conf[source.group].enabled
    ]


def _listener(conf: cfg.ConfigOpts, group: str, endpoint: NotificationEndpoint) -> MessageServer:
    options = conf[group]
    transport = messaging.get_notification_transport(conf, url=options.transport_url)
    targets = [
        messaging.Target(topic=topic, exchange=options.exchange) for topic in options.topics
    ]
    listener = messaging.get_notification_listener(
        transport, targets, [endpoint], executor='threading', pool=options.pool
    )
    return MessageServer(group, listener)
