# SPDX-License-Identifier: Apache-2.0
"""Note what Nova, Cinder and Heat tell about reserved resources outside of their lease.

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

import abc
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

import oslo_messaging as messaging
from oslo_config import cfg
from oslo_log import log

from climate_core.conf import notifications
from climate_core.db import missing, store
from climate_core.db.engine import TROUBLE, Database
from climate_core.threads import MessageServer

LOG = log.getLogger(__name__)

#: What keeps us from noting; the next comparison makes up for it.
_TROUBLE: tuple[type[Exception], ...] = (store.Stale, *TROUBLE)
_Note = Callable[[Database, str, str, str], bool]


class Endpoint(abc.ABC):
    """Notes what happens to one type of resource.

    :param nudge: called when something was written that the engine should look at
    """

    resource_type: ClassVar[str]
    #: The section with the options.
    group: ClassVar[str]
    #: What event types may begin with.
    prefix: ClassVar[str] = ''
    #: Event type without prefix -> what is noted, and why.
    noted: ClassVar[Mapping[str, tuple[_Note, str]]]
    filter_rule: ClassVar[messaging.NotificationFilter]

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
        note, reason = self.noted[event_type.removeprefix(self.prefix)]
        resource_id = self.resource_id(payload)
        try:
            noted = resource_id and note(self._database, self.resource_type, resource_id, reason)
        except _TROUBLE as exc:
            LOG.warning('%s of %s was not noted: %s', event_type, resource_id, exc)
            return
        if noted:
            self._nudge()
            LOG.warning('%s told by %s: %s', reason, publisher_id, resource_id)

    @staticmethod
    @abc.abstractmethod
    def resource_id(payload: Mapping[str, Any]) -> str | None:
        """Return the id of the resource that a notification is about."""


def _filter(prefix: str, noted: Mapping[str, Any]) -> messaging.NotificationFilter:
    types = '|'.join(re.escape(kind) for kind in noted)
    return messaging.NotificationFilter(event_type=rf'^({re.escape(prefix)})?({types})$')


class Servers(Endpoint):
    """Notes deletions and evacuations of reserved servers.

    A soft-deleted server can be restored and holds its host meanwhile, so it is not lost before
    Nova deletes it.
    """

    resource_type = 'virtual:instance'
    group = notifications.NOVA.GROUP
    prefix = 'compute.'
    noted = {
        'instance.delete.end': (
            missing.mark_resource_lost,
            'The server was deleted outside of the lease.',
        ),
        'instance.evacuate': (
            missing.change_resource,
            'The server was evacuated from its host.',
        ),
    }
    filter_rule = _filter(prefix, noted)

    @staticmethod
    def resource_id(payload: Mapping[str, Any]) -> str | None:
        data = payload.get('nova_object.data', payload)
        found = data.get('uuid') or data.get('instance_id')
        return str(found) if found else None


class Volumes(Endpoint):
    """Notes deletions of reserved volumes, and those for which there is no room."""

    resource_type = 'virtual:volume'
    group = notifications.CINDER.GROUP
    noted = {
        'volume.delete.end': (
            missing.mark_resource_lost,
            'The volume was deleted outside of the lease.',
        ),
        'scheduler.create_volume': (
            missing.mark_resource_lost,
            'Cinder found no backend for the volume.',
        ),
    }
    filter_rule = _filter('', noted)

    def error(self, *told: Any) -> None:
        """Note notifications with the priority ``error``, too."""
        self.info(*told)

    @staticmethod
    def resource_id(payload: Mapping[str, Any]) -> str | None:
        found = payload.get('volume_id')
        return str(found) if found else None


class Stacks(Endpoint):
    """Notes deletions of reserved stacks; nested ones, which tell theirs too, are not reserved."""

    resource_type = 'virtual:stack'
    group = notifications.HEAT.GROUP
    noted = {
        'orchestration.stack.delete.end': (
            missing.mark_resource_lost,
            'The stack was deleted or abandoned outside of the lease.',
        ),
    }
    filter_rule = _filter('', noted)

    @staticmethod
    def resource_id(payload: Mapping[str, Any]) -> str | None:
        found = payload.get('stack_identity')
        return str(found) if found else None


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
        _one(conf, conf[kind.group], kind(database, nudge))
        for kind in (Servers, Volumes, Stacks)
        if kind.resource_type in resource_types and conf[kind.group].enabled
    ]


def _one(conf: cfg.ConfigOpts, options: Any, endpoint: Endpoint) -> MessageServer:
    transport = messaging.get_notification_transport(conf, url=options.transport_url)
    targets = [
        messaging.Target(topic=topic, exchange=options.exchange) for topic in options.topics
    ]
    listener = messaging.get_notification_listener(
        transport, targets, [endpoint], executor='threading', pool=options.pool
    )
    return MessageServer(endpoint.group, listener)
