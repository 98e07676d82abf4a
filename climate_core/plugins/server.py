# SPDX-License-Identifier: Apache-2.0
"""``virtual:instance``: a server that Nova built in the state RESERVED.

Nova has chosen the host and claimed the capacity already; here the server is started at the start
of the lease and its end action is done at the end. Where a request specifies servers, each is
created as such a server before that, see :mod:`climate_core.plugins.provisioned_plugin`.
"""

import contextlib
import dataclasses
import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from climate_common import limits, resource_types
from climate_core import exceptions
from climate_core.cloud import errors, servers
from climate_core.conf import cloud as cloud_conf
from climate_core.conf import secrets
from climate_core.plugins import (
    own_service_plugin,
    provisioned_plugin,
    server_checks,
    server_end,
    server_recovery,
    server_spec,
    step_context,
)
from climate_core.plugins.base import (
    Evacuable,
    FastStarting,
    Lockable,
    NotificationSource,
    PollAgain,
    ReservedResource,
    UserOfResources,
)
from climate_core.plugins.step_context import END, START, EndContext, Progress, StepContext

if TYPE_CHECKING:
    from climate_core.cloud import connections
    from climate_core.context import RequestContext
    from climate_core.lease.model import Lease, Reservation

_RESERVED = 'RESERVED'
_WAKE_UP = 'wake_up'
#: The task of a wake_up that no nova-compute has begun, see nova_ext/api/wake_up.py.
_SENT = 'scheduling'
_GONE = frozenset({'DELETED', 'SOFT_DELETED'})
#: UNKNOWN is a server in a cell that does not answer.
_UNSETTLED = frozenset({'BUILD', 'UNKNOWN'})
#: Hints that ask for a reservation, see nova_ext.
_HINTS = frozenset({'reserved', 'lease_params', 'lease_id'})
_FALSE = frozenset({'false', '0', 'no', 'off', 'f', 'n', ''})


class ServerPlugin(
    provisioned_plugin.ProvisionedPlugin, Lockable, Evacuable, FastStarting, UserOfResources
):
    """Reserve servers."""

    resource_type = resource_types.SERVER
    title = 'Server'
    service = 'nova'
    description = 'A server that waits in the state RESERVED and starts with its lease.'
    options = (
        own_service_plugin.on_end_option(
            resource_types.ON_END[resource_types.SERVER], 'server', 'A server that never started'
        ),
        own_service_plugin.first_poll_option('Nova', 'nova_notifications'),
        cfg.StrOpt(
            'image_prefix',
            default='reserved_',
            help='Prefix of the name of the image that create_image creates; the name of the '
            'server follows.',
        ),
        own_service_plugin.lead_option(
            'its servers are created, so that they can be started in time.'
        ),
        secrets.KEYS,
        server_checks.EXTERNAL_NETWORKS_OPTION,
        *server_recovery.RECOVERY_OPTIONS,
    )
    schema = {
        **server_spec.SCHEMA,
        **own_service_plugin.end_action_schema(resource_types.ON_END[resource_types.SERVER]),
        **own_service_plugin.STACK_ID_SCHEMA,
        **provisioned_plugin.amounts_schema(*resource_types.SERVER_UNITS),
    }
    key = server_spec.SPEC_KEY
    waiting = _RESERVED
    rank = 20
    calls = servers
    # A soft-deleted server can be restored and claims its host until then, so it is not lost
    # before Nova deletes it. Facts: Nova's unversioned event types begin with ``compute.``, with
    # ``instance_id``; versioned ones have ``uuid`` (nova/compute/utils.py
    # notify_about_instance_usage, notify_about_instance_action). nova-compute notifies after it
    # has stored a result (nova/compute/manager.py _build_and_run_instance, _shelve_instance,
    # _unshelve_instance, stop_instance, _snapshot_instance).
    notifications = NotificationSource(
        group=cloud_conf.NOVA_NOTIFICATIONS.GROUP,
        ids=('uuid', 'instance_id'),
        lost=('instance.delete.end',),
        moved=('instance.evacuate',),
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
    gone_reason = 'The server was deleted'
    prefix = 'image_prefix'
    rejections = (errors.Rejected, errors.Forbidden)

    def _claim(
        self,
        context: 'RequestContext',
        lease_id: str,
        spec: Mapping[str, Any],
        params: Mapping[str, Any],
    ) -> ReservedResource:
        options = self.conf[self.resource_type]
        return server_spec.reserve_servers(
            self.cloud.user(context),
            self.cloud.service(),
            lease_id,
            spec,
            params,
            options.secret_keys,
            options[server_checks.EXTERNAL_NETWORKS_OPTION.name],
        )

    def list_exclusive(self, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        return server_spec.list_ports(values.get(self.key, {}))

    def check_now(self, context: 'RequestContext', values: Mapping[str, Any]) -> None:
        if self.key in values:
            server_spec.check_now(self.cloud.user(context), values[self.key])

    def _find(
        self, conn: 'connections.Connection', reservation: 'Reservation', all_projects: bool
    ) -> Iterator[str]:
        return servers.find_by_tag(conn, server_spec.reservation_tag(reservation), all_projects)

    def _create(self, context: StepContext, asked_by: Mapping[str, str]) -> str:
        keys = context.options.secret_keys
        server, hints = server_spec.build_request(context.lease, context.reservation, keys)
        return servers.create(context.conn, server, {**hints, **asked_by})

    def _watch(self, context: StepContext, server: Mapping[str, Any]) -> PollAgain | None:
        context = context.observe(server['status'], server.get('OS-EXT-STS:task_state'))
        doing = server_recovery.check_build(context, server)
        if doing and server_recovery.is_build_unstarted(server):
            command = f'openstack server delete {context.resource_id}'
            minutes = context.options.lost_build_minutes
            return self._wait_for_build(context, doing, minutes, command)
        return context.wait(doing) if doing else None

    def _delete_lost(self, context: StepContext, server: Mapping[str, Any]) -> PollAgain:
        return server_recovery.delete_unbuilt(context, server)

    def _failed(self, reservation: 'Reservation', reason: str) -> str:
        return server_recovery.describe_build_failure(reservation, reason)

    def _read_reservable(
        self, context: 'RequestContext', resource_id: str
    ) -> dict[str, Any] | None:
        server = servers.get(self.cloud.user(context), resource_id, hints=True)
        is_present = server['tenant_id'] == context.project_id and server['status'] not in _GONE
        return server if is_present else None

    def _is_reservation(
        self,
        server: Mapping[str, Any],
        context: 'RequestContext',  # noqa: ARG002
    ) -> bool:
        if server['status'] == _RESERVED:
            return True
        hints = server.get('scheduler_hints') or {}
        return server['status'] == 'BUILD' and _asks_for_reservation(hints)

    def _read_whole(
        self, conn: 'connections.Connection', resource_id: str
    ) -> dict[str, Any] | None:
        server = servers.get(conn, resource_id, hints=True)
        # Of a cell that does not answer Nova shows neither the flavor nor the hints.
        return None if server['status'] == 'UNKNOWN' else server

    def _waits_for(self, server: Mapping[str, Any], lease_id: str) -> bool:
        hints = server.get('scheduler_hints') or {}
        named = _single(hints.get('lease_id'))
        if named is None:
            # The extension of Nova writes the id into the parameters of a new lease, too.
            with contextlib.suppress(ValueError, AttributeError):
                named = limits.decode(_single(hints.get('lease_params')) or '{}').get('id')
        return _asks_for_reservation(hints) and named in (None, lease_id)

    @staticmethod
    def _amounts(server: Mapping[str, Any]) -> dict[str, int]:
        flavor = server['flavor']
        sizes = (flavor['vcpus'], flavor['ram'], flavor['disk'], flavor['ephemeral'])
        return resource_types.server_amounts(*sizes, boots_from_volume=not server.get('image'))

    def find_uses(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | None:
        progress = Progress.load(reservation.progress, START, self.now())
        if progress.uses is not None:
            return None
        try:
            server = servers.get(
                step_context.connect_as_owner(self.cloud, lease), reservation.resource_id
            )
        except errors.Gone:
            return None
        uses = [each['id'] for each in server.get(servers.VOLUMES, ())]
        return PollAgain(0.0, None, dataclasses.replace(progress, uses=uses).dump())

    def _wake_without_read(self, context: StepContext) -> PollAgain | None:
        # Nova starts a server that is RESERVED, and no other: see nova_ext/api/wake_up.py.
        try:
            servers.act(context.conn, context.resource_id, _WAKE_UP, {})
        except (errors.Busy, errors.Gone):
            return None
        return context.first_wait(_WAKE_UP)

    def _wake(self, context: StepContext, server: Mapping[str, Any]) -> PollAgain | None:
        status, task = server['status'], server.get('OS-EXT-STS:task_state')
        context = context.observe(status, task, server.get('updated'))
        if status in _GONE:
            raise errors.Gone(self.gone_reason)
        if status == _RESERVED and task == _SENT:
            return server_recovery.repeat_wake_up(context)
        is_busy = status in _UNSETTLED or (status == _RESERVED and task)
        if is_busy or servers.is_deleting(server):
            # Nova itself abandons a build before ([DEFAULT] instance_build_timeout).
            return server_recovery.wait_at_start(context, server)
        if status == _RESERVED:
            return self._ask_to_wake(context, server)
        if status in server_end.SHELVED and context.lease.preemptible:
            return server_end.unshelve(context, server)
        if status == 'ERROR':
            lost = context.progress.asked == server_recovery.ABANDONED_START
            why = 'its start was lost, and its state was reset.' if lost else _fault(server)
            raise exceptions.Permanent(f'The server is in ERROR: {why}')
        return None

    def is_started(self, lease: 'Lease', reservation: 'Reservation') -> bool:
        progress = Progress.load(reservation.progress, START, self.now())
        if progress.asked != _WAKE_UP or lease.preemptible:
            return False
        server = servers.get(
            step_context.connect_as_owner(self.cloud, lease), reservation.resource_id
        )
        return server['status'] == 'ACTIVE' and not servers.is_deleting(server)

    def _ask_to_wake(self, context: StepContext, server: Mapping[str, Any]) -> PollAgain:
        try:
            # If the start was requested before, Nova could not start the server and reset it to
            # RESERVED.
            return context.once(
                _WAKE_UP,
                f'The server could not be started: {_fault(server)}',
                lambda: servers.act(context.conn, context.resource_id, _WAKE_UP, {}),
            )
        except errors.Busy:
            # Another user has started it, or Nova found no host and reset it.
            found = servers.get(context.conn, context.resource_id)
            if found['status'] == _RESERVED and not found.get('OS-EXT-STS:task_state'):
                raise
            return context.wait()

    def _end(self, context: EndContext, server: Mapping[str, Any]) -> PollAgain | None:
        try:
            wait = server_end.keep_shelved(context, server)
            if wait is None:
                unlocked_server = server_end.ensure_unlocked(context, server)
                wait = server_end.take_end_step(context, unlocked_server)
        except exceptions.PluginFailure as exc:
            progress = Progress.load(exc.progress or context.progress.dump(), END, context.now)
            uses = [each['id'] for each in server.get(servers.VOLUMES, ())]
            exc.progress = progress.with_failing_end(uses, context.now).dump()
            raise
        if wait is None:
            return None
        progress = Progress.load(wait.progress, END, context.now)
        progress = progress.with_end_continued(wait.reason, self._failing_seconds, context.now)
        return dataclasses.replace(wait, progress=progress.dump())

    @property
    def _failing_seconds(self) -> float:
        """Return the seconds after which a failing end blocks only what the server uses."""
        return 60.0 * self.conf[self.resource_type].lost_task_minutes

    def blocks(self, own: 'Reservation', other: 'Reservation') -> bool:
        """Block other resources; an end that has failed for long blocks only what the server uses.

        Its volumes, and a network, which would take its ports with it, wait until it is ended.
        Addresses are allocated to other leases, and a server does not need them.
        """
        now = self.now()
        progress = Progress.load(own.progress, END, now)
        since = progress.failing_since
        if since is None or (now - since).total_seconds() < self._failing_seconds:
            return True
        is_network = other.resource_type == resource_types.NETWORK
        return is_network or other.resource_id in (progress.uses or ())

    def preempt(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | None:
        return self._free(server_end.shelve_and_lock, lease, reservation)

    def list_locked(self) -> Iterable[str]:
        return server_end.list_locked(self.cloud.service())

    def unlock(
        self, resource_id: str, lease_id: str | None = None, may_sleep: bool = True
    ) -> bool:
        return server_end.release_lock(self.cloud.service(), resource_id, lease_id, may_sleep)

    def _lost_reason(
        self,
        reservation: 'Reservation',  # noqa: ARG002
        server: Mapping[str, Any],
    ) -> str | None:
        # One that is soft-deleted can be restored, and would then run without an end.
        return self._was_deleted if server['status'] == 'DELETED' else None

    def find_moved(self, reservations: Sequence['Reservation']) -> Mapping[str, str]:
        conn = self.cloud.service()
        return {
            each.id: 'The server was evacuated from its host.'
            for each in reservations
            if each.is_made and servers.was_evacuated(conn, each.resource_id)
        }

    def list_unleased(self) -> Iterable[str]:
        return servers.list_ids(self.cloud.service(), status=_RESERVED)

    def _reserved_since(self, server: Mapping[str, Any]) -> datetime.datetime | None:
        if server['status'] != _RESERVED or servers.is_deleting(server):
            return None
        return datetime.datetime.fromisoformat(server.get('updated') or server['created'])


def _fault(server: Mapping[str, Any]) -> str:
    fault = server.get('fault') or {}
    return str(fault.get('message') or 'Nova reports no reason')


def _single(value: Any) -> Any:
    """Return the value of a hint, out of the list that Nova puts around it."""
    return value[0] if isinstance(value, list) and value else value


def _asks_for_reservation(hints: Mapping[str, Any]) -> bool:
    if 'reserved' in hints:
        return str(_single(hints['reserved'])).strip().lower() not in _FALSE
    return bool(_HINTS & set(hints))
