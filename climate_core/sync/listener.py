# SPDX-License-Identifier: Apache-2.0
"""Hear what Nova, Cinder and Heat notify of the resources of leases.

Changes outside of a lease are recorded. What was asked for at a start or an end, and is done, is
looked at now and not only at the next look, and once more if this manager is looking at it.
Nothing depends on it: the comparison of :mod:`climate_core.sync.reconcile` and the next look make
up for a notification that is lost, or comes just before its manager dies.

Facts: Nova's event types of unversioned notifications begin with ``compute.``, and the id is
``instance_id``; versioned ones have ``uuid`` in ``nova_object.data`` (nova/compute/utils.py
``notify_about_instance_usage``, ``notify_about_instance_action``). Cinder's have ``volume_id``
(cinder/volume/volume_utils.py ``notify_about_volume_usage``). Heat's have ``stack_identity``, the
id alone, and begin with ``orchestration.`` (heat/engine/notification/stack.py, heat/engine/api.py
``format_notification_body``); abandoning a stack is told as its deletion. That no backend takes a
volume is told by cinder-scheduler with the priority ``error``
(cinder/scheduler/flows/create_volume.py). Of a nova-compute that is enabled, disabled, forced
down or forced no more, new or deleted Nova sends versioned notifications ``service.`` alone
(nova/objects/service.py). That something is done is told after it was written: of a server by
nova-compute (nova/compute/manager.py ``_build_and_run_instance``, ``_shelve_instance``,
``_unshelve_instance``, ``stop_instance``, ``_snapshot_instance``), of a volume by cinder-volume
(cinder/volume/flows/manager/create_volume.py ``CreateVolumeOnFinishTask``), whose backups and
snapshots are told with its id as well (cinder/volume/volume_utils.py), of a stack by heat-engine
(heat/engine/stack.py ``_send_notification_and_add_event``).

Each service has a pool of listeners of its own. RabbitMQ deals the messages of one pool out to
its listeners, and a listener drops a message that it has no use for.
"""

import dataclasses
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import oslo_messaging as messaging
from oslo_config import cfg
from oslo_log import log

from climate_common import resource_types
from climate_core.conf import notifications
from climate_core.db import events, looks, missing, store
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
    :param done: event types without prefix after which the lease looks at its resource
    :param prefix: what event types may begin with
    """

    resource_type: str
    group: str
    ids: Sequence[str]
    noted: Mapping[str, tuple[_Note, str]]
    done: Collection[str] = ()
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
    done=(
        'instance.create.end',
        'instance.delete.end',
        'instance.power_off.end',
        'instance.shelve.end',
        'instance.shelve_offload.end',
        'instance.snapshot.end',
        'instance.soft_delete.end',
        'instance.suspend.end',
        'instance.unshelve.end',
    ),
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
    done=(
        'backup.create.end',
        'snapshot.create.end',
        'volume.create.end',
        'volume.delete.end',
        'volume.detach.end',
    ),
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
    done=(
        'orchestration.stack.create.end',
        'orchestration.stack.delete.end',
        'orchestration.stack.resume.end',
        'orchestration.stack.snapshot.end',
        'orchestration.stack.suspend.end',
        'orchestration.stack.update.end',
    ),
)
SOURCES = (SERVERS, VOLUMES, STACKS)
#: The types whose reservations are of hosts.
_OF_HOSTS = {resource_types.HOST, resource_types.CAPACITY}


class NotificationEndpoint:
    """Hear what happens to one type of resource.

    :param nudge: called when something was written that the engine should look at
    :param look_early: called with an event that the engine should look at before its time
    :param early_looks: finds that event; None: in the database
    """

    def __init__(
        self,
        source: Source,
        database: Database,
        nudge: Callable[[], None],
        look_early: Callable[[events.Due], None],
        early_looks: looks.EarlyLooks | None = None,
    ) -> None:
        types = '|'.join(map(re.escape, sorted({*source.noted, *source.done})))
        self.filter_rule = messaging.NotificationFilter(
            event_type=rf'^({re.escape(source.prefix)})?({types})$'
        )
        self._source = source
        self._database = database
        self._early_looks = early_looks or looks.EarlyLooks(database)
        self._nudge = nudge
        self._look_early = look_early

    def info(
        self,
        context: Mapping[str, Any],  # noqa: ARG002
        publisher_id: str,
        event_type: str,
        payload: Mapping[str, Any],
        metadata: Mapping[str, Any],  # noqa: ARG002
    ) -> None:
        source, kind = self._source, event_type.removeprefix(self._source.prefix)
        data = payload.get('nova_object.data', payload)
        resource_id = next(filter(None, map(data.get, source.ids)), None)
        if not resource_id:
            return
        try:
            if self._note(kind, resource_id, publisher_id) or kind not in source.done:
                return
            due = self._early_looks.find(source.resource_type, resource_id)
            if due is not None:
                self._look_early(due)
        except _TROUBLE as exc:
            LOG.warning('%s of %s was not taken in: %s', event_type, resource_id, exc)

    #: Cinder's scheduler tells that a volume has no backend with this priority.
    error = info

    def _note(self, kind: str, resource_id: str, publisher_id: str) -> bool:
        """Note a change outside of a lease; tell whether it was one."""
        note, reason = self._source.noted.get(kind, (None, ''))
        if note is None or not note(
            self._database, self._source.resource_type, resource_id, reason
        ):
            return False
        self._nudge()
        LOG.warning('%s told by %s: %s', reason, publisher_id, resource_id)
        return True


class ComputeEndpoint:
    """Look at the hosts of the pools when Nova tells of a nova-compute.

    :param look: called for each of them; it need not be one of a pool
    """

    filter_rule = messaging.NotificationFilter(event_type=r'^service\.(create|update|delete)$')

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look

    def info(
        self,
        context: Mapping[str, Any],  # noqa: ARG002
        publisher_id: str,  # noqa: ARG002
        event_type: str,
        payload: Mapping[str, Any],
        metadata: Mapping[str, Any],  # noqa: ARG002
    ) -> None:
        service = payload.get('nova_object.data', {})
        if service.get('binary') == 'nova-compute':
            LOG.info('%s of nova-compute on %s', event_type, service.get('host'))
            self._look()


def make(
    conf: cfg.ConfigOpts,
    database: Database,
    types: Collection[str],
    nudge: Callable[[], None] = lambda: None,
    look_at_hosts: Callable[[], None] = lambda: None,
    look_early: Callable[[events.Due], None] = lambda _due: None,
    early_looks: looks.EarlyLooks | None = None,
) -> list[MessageServer]:
    """Make the listeners for these types; they hear nothing before their ``start``.

    :param nudge: called when something was written that the engine should look at
    :param look_at_hosts: called when something has happened to a nova-compute
    :param look_early: called with an event that the engine should look at before its time
    :param early_looks: finds that event; None: in the database
    :returns: none for what is turned off
    """
    endpoints: dict[str, list[NotificationEndpoint | ComputeEndpoint]] = defaultdict(list)
    for source in SOURCES:
        if source.resource_type in types:
            heard = NotificationEndpoint(source, database, nudge, look_early, early_looks)
            endpoints[source.group].append(heard)
    if _OF_HOSTS & set(types):
        endpoints[SERVERS.group].append(ComputeEndpoint(look_at_hosts))
    return [
        _listener(conf, group, found) for group, found in endpoints.items() if conf[group].enabled
    ]


def _listener(
    conf: cfg.ConfigOpts, group: str, endpoints: Sequence[NotificationEndpoint | ComputeEndpoint]
) -> MessageServer:
    options = conf[group]
    transport = messaging.get_notification_transport(conf, url=options.transport_url)
    targets = [
        messaging.Target(topic=topic, exchange=options.exchange) for topic in options.topics
    ]
    listener = messaging.get_notification_listener(
        transport, targets, endpoints, executor='threading', pool=options.pool
    )
    return MessageServer(group, listener)
