# SPDX-License-Identifier: Apache-2.0
"""Receive the notifications of Nova, Cinder and Heat about the resources of leases.

A notification is a hint: it changes nothing by itself. Changes outside of a lease are checked, see
:mod:`climate_core.repair.notified_checks`. When an action of a start or an end completes, its
resource is polled immediately, and once more if this manager is polling it. Nothing depends on it:
:mod:`climate_core.repair.reconciliation` and the next poll make up for a notification that is
lost, or comes just before its manager dies.

Facts: Nova's event types of unversioned notifications begin with ``compute.``, and the id is
``instance_id``; versioned ones have ``uuid`` in ``nova_object.data`` (nova/compute/utils.py
``notify_about_instance_usage``, ``notify_about_instance_action``). Cinder's have ``volume_id``
(cinder/volume/volume_utils.py ``notify_about_volume_usage``). Heat's have ``stack_identity``, the
id alone, and begin with ``orchestration.`` (heat/engine/notification/stack.py, heat/engine/api.py
``format_notification_body``); abandoning a stack is notified as its deletion. A volume that
no backend takes is notified by cinder-scheduler with the priority ``error``
(cinder/scheduler/flows/create_volume.py). Of a nova-compute that is enabled, disabled, forced
down or forced no more, new or deleted Nova sends versioned notifications ``service.`` alone
(nova/objects/service.py). Completed actions are notified after they were saved: of a server by
nova-compute (nova/compute/manager.py ``_build_and_run_instance``, ``_shelve_instance``,
``_unshelve_instance``, ``stop_instance``, ``_snapshot_instance``), of a volume by cinder-volume
(cinder/volume/flows/manager/create_volume.py ``CreateVolumeOnFinishTask``), whose backups and
snapshots are notified with its id as well (cinder/volume/volume_utils.py), of a stack by
heat-engine (heat/engine/stack.py ``_send_notification_and_add_event``).

Each service has a pool of listeners of its own. RabbitMQ deals the messages of one pool out to
its listeners, and a listener drops a message that it has no use for.
"""

import dataclasses
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import oslo_messaging as messaging
from oslo_config import cfg
from oslo_log import log

from climate_common import resource_types
from climate_core.concurrency import RateLimit
from climate_core.conf import cloud
from climate_core.db import due_events, store
from climate_core.db.engine import DATABASE_ERRORS
from climate_core.repair.notified_checks import NotifiedChecks, Suspicion
from climate_core.threads import MessageServer

LOG = log.getLogger(__name__)

#: The errors after which a notification is dropped; the next reconciliation makes up for it.
_DATABASE_ERRORS: tuple[type[Exception], ...] = (store.Stale, *DATABASE_ERRORS)
#: The form of the id of a resource; anything else is no resource of a lease.
_ID_PATTERN: Final = re.compile(r'[0-9A-Za-z_.:-]{1,255}', re.ASCII)
#: Maximum number of early polls of the lease of one resource within a period in seconds.
_MAX_EARLY_POLLS: Final = 20
_PERIOD_SECONDS: Final = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class NotificationSource:
    """The notifications about one type of resource.

    :param group: the section with the options
    :param ids: which fields of a payload may have the id of the resource
    :param suspected: event type without prefix -> what the resource is checked for
    :param done: event types without prefix after which the lease looks at its resource
    :param prefix: what event types may begin with
    """

    resource_type: str
    group: str
    ids: Sequence[str]
    suspected: Mapping[str, Suspicion]
    done: Collection[str] = ()
    prefix: str = ''


#: A soft-deleted server can be restored and holds its host meanwhile, so it is not lost before
#: Nova deletes it.
SERVERS = NotificationSource(
    'virtual:instance',
    cloud.NOVA_NOTIFICATIONS.GROUP,
    ('uuid', 'instance_id'),
    {
        'instance.delete.end': Suspicion.LOST,
        'instance.evacuate': Suspicion.MOVED,
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
VOLUMES = NotificationSource(
    'virtual:volume',
    cloud.CINDER_NOTIFICATIONS.GROUP,
    ('volume_id',),
    {
        'volume.delete.end': Suspicion.LOST,
        'scheduler.create_volume': Suspicion.LOST,
    },
    done=(
        'backup.create.end',
        'snapshot.create.end',
        'volume.create.end',
        'volume.delete.end',
        'volume.detach.end',
    ),
)
#: Nested stacks notify of their deletion, too, but are not reserved.
STACKS = NotificationSource(
    'virtual:stack',
    cloud.HEAT_NOTIFICATIONS.GROUP,
    ('stack_identity',),
    {'orchestration.stack.delete.end': Suspicion.LOST},
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
#: The types whose resources are checked after notifications.
CHECKED = frozenset(source.resource_type for source in SOURCES)
#: The types whose reservations are of hosts.
_OF_HOSTS = {resource_types.HOST, resource_types.CAPACITY}


class NotificationEndpoint:
    """Receive the notifications about one type of resource.

    :param checks: checks what may have happened to a resource of a lease
    :param early_looks: finds the event that the engine should look at before its time
    :param poll_early: called with that event
    """

    def __init__(
        self,
        source: NotificationSource,
        checks: NotifiedChecks,
        early_looks: due_events.EarlyPolls,
        poll_early: Callable[[due_events.DueEvent], None],
    ) -> None:
        types = '|'.join(map(re.escape, sorted({*source.suspected, *source.done})))
        self.filter_rule = messaging.NotificationFilter(
            event_type=rf'^({re.escape(source.prefix)})?({types})$'
        )
        self._source = source
        self._checks = checks
        self._early_looks = early_looks
        self._look_early = poll_early
        self._limit = RateLimit(_MAX_EARLY_POLLS, _PERIOD_SECONDS)

    def info(
        self,
        context: Mapping[str, Any],  # noqa: ARG002
        publisher_id: str,  # noqa: ARG002
        event_type: str,
        payload: Any,
        metadata: Mapping[str, Any],  # noqa: ARG002
    ) -> None:
        source, kind = self._source, event_type.removeprefix(self._source.prefix)
        data = _payload_data(payload)
        resource_id = next(filter(None, map(data.get, source.ids)), None)
        if not isinstance(resource_id, str) or not _ID_PATTERN.fullmatch(resource_id):
            return
        suspicion = source.suspected.get(kind)
        try:
            if suspicion is not None and self._checks.request(suspicion, resource_id):
                return
            if kind in source.done:
                self._look(resource_id)
        except _DATABASE_ERRORS as exc:
            LOG.warning('%s of %s was not taken in: %s', event_type, resource_id, exc)

    #: cinder-scheduler notifies with this priority that a volume has no backend.
    error = info

    def _look(self, resource_id: str) -> None:
        due = self._early_looks.find(self._source.resource_type, resource_id)
        if due is not None and self._limit.take(resource_id):
            self._look_early(due)


class ComputeEndpoint:
    """Check the hosts of the pools when Nova notifies of a nova-compute.

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
        payload: Any,
        metadata: Mapping[str, Any],  # noqa: ARG002
    ) -> None:
        service = _payload_data(payload)
        if service.get('binary') == 'nova-compute':
            LOG.info('%s of nova-compute on %.255r', event_type, service.get('host'))
            self._look()


def _payload_data(payload: Any) -> Mapping[str, Any]:
    """Return what a payload has, versioned or not; nothing if it is malformed."""
    data = payload.get('nova_object.data', payload) if isinstance(payload, Mapping) else {}
    return data if isinstance(data, Mapping) else {}


def create_listeners(
    conf: cfg.ConfigOpts,
    types: Collection[str],
    checks: Mapping[str, NotifiedChecks],
    early_looks: due_events.EarlyPolls,
    poll_early: Callable[[due_events.DueEvent], None],
    look_at_hosts: Callable[[], None],
) -> list[MessageServer]:
    """Create the listeners for these types; they receive nothing before their ``start``.

    :param checks: resource type -> what checks its resources
    :param poll_early: called with an event that the engine should look at before its time
    :param early_looks: finds that event
    :param look_at_hosts: called when something has happened to a nova-compute
    :returns: none for what is turned off
    """
    endpoints: dict[str, list[NotificationEndpoint | ComputeEndpoint]] = defaultdict(list)
    for source in SOURCES:
        source_checks = checks.get(source.resource_type)
        if source_checks is not None:
            endpoint = NotificationEndpoint(source, source_checks, early_looks, poll_early)
            endpoints[source.group].append(endpoint)
    if _OF_HOSTS & set(types):
        endpoints[SERVERS.group].append(ComputeEndpoint(look_at_hosts))
    return [
        _listener(conf, group, endpoint)
        for group, endpoint in endpoints.items()
        if conf[group].enabled
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
    return MessageServer(group, listener, redelivers=True)
