# SPDX-License-Identifier: Apache-2.0
"""A resource whose own service holds its capacity while it is reserved.

That is what servers, volumes and stacks have in common: it exists before its lease, it is started
with the rights of the lease's owner and ended with them, or with those of the service if the owner
left none. Each poll takes one step; requests are recorded with the reservation between the polls.

A stack is a reservation of its lease, and so is each reserved server and volume in it: a member,
whose ``stack_id`` is that of the root stack. Heat starts the members when the stack is started,
and ends them with it; their own plugins do what remains:

============================================  ===================================================
at the start the stack is pending or active   Heat starts those that are wanted
at the start the stack is out of the lease,   they are started as if there were no stack
or cannot be started
at the end it was deleted, or never started   they are gone with it, or have their own end
at the end its end action keeps it            they are left as they are; reserved ones are deleted
at the end it should be suspended, and        its servers are suspended one by one
Heat could not do that
============================================  ===================================================
"""

import abc
import contextlib
import dataclasses
import datetime
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, final

from oslo_config import cfg
from oslo_log import log

from climate_common import resource_types
from climate_core import concurrency, exceptions
from climate_core.cloud import errors, servers, stacks, volumes
from climate_core.lease import model, states
from climate_core.plugins import step_context
from climate_core.plugins.base import LeaseManaged, PollAgain, Specified
from climate_core.plugins.step_context import FIRST_POLL_SECONDS, EndContext, Progress, StepContext

if TYPE_CHECKING:
    from climate_core.cloud import Cloud, connections
    from climate_core.lease.model import Lease, Reservation

#: The property that makes a reservation a member: the id of its root stack.
STACK_ID_KEY: Final = 'stack_id'
#: The schema of this property.
STACK_ID_SCHEMA: Final[Mapping[str, Any]] = {STACK_ID_KEY: {'type': 'string', 'format': 'uuid'}}
#: End actions that keep a stack.
STACK_KEEPING_END_ACTIONS = frozenset({'suspend', 'snapshot', 'nothing'})
#: End actions that keep it suspended.
STACK_SUSPENDING_END_ACTIONS = frozenset({'suspend', 'snapshot'})

_S = states.ReservationStatus
#: Maximum number of cached stacks at their end, and seconds: their members end together.
_MAX_CACHED_STACKS: Final = 1000
_CACHE_SECONDS: Final = 10.0


def find_parent_stack(lease: model.Lease, member: model.Reservation) -> model.Reservation | None:
    """Return the latest reservation of the stack that a member belongs to."""
    stack = resource_types.STACK, member.params.get(STACK_ID_KEY)
    found = [r for r in lease.reservations if (r.resource_type, r.resource_id) == stack]
    return max(found, key=lambda each: (each.live, each.created_at), default=None)


def is_woken_by_heat(lease: model.Lease, member: model.Reservation) -> bool:
    """Return whether a member is started with its stack, not by its own plugin."""
    stack = find_parent_stack(lease, member)
    return stack is not None and stack.status in (_S.PENDING, _S.ACTIVE)


class ParentStacks:
    """The stacks of members at their end, each read once for all of its members."""

    def __init__(self, cloud: 'Cloud') -> None:
        self._cloud = cloud
        self._statuses: concurrency.RecentCache[str | None] = concurrency.RecentCache(
            _MAX_CACHED_STACKS, _CACHE_SECONDS
        )

    def at_end(
        self, conn: 'connections.Connection', lease: model.Lease, member: model.Reservation
    ) -> model.Reservation:
        """Return a member with the end action that it has: ``nothing`` if its stack was kept.

        A server is suspended if its stack should be and is not.

        :param conn: the rights to read the stack
        """
        stack = find_parent_stack(lease, member)
        if stack is None or not _is_kept(lease, stack):
            return member
        status = self._status(conn, lease, stack.resource_id)
        if status is None:
            return member
        should_suspend = (
            stack.params['on_end'] in STACK_SUSPENDING_END_ACTIONS and status != 'SUSPEND_COMPLETE'
        )
        on_end = (
            'suspend'
            if should_suspend and member.resource_type == resource_types.SERVER
            else 'nothing'
        )
        return dataclasses.replace(member, params={**member.params, 'on_end': on_end})

    def _status(
        self, conn: 'connections.Connection', lease: model.Lease, stack_id: str
    ) -> str | None:
        """Return the status of a stack; None if it is gone, or about to be."""
        as_service = conn is self._cloud.service()

        def read_status() -> str | None:
            try:
                status = stacks.get(conn, stack_id).status
            except errors.Gone:
                if as_service:
                    stacks.check_all_visible(conn)
                return None
            return None if status.startswith('DELETE_') else status

        return self._statuses.get(f'{as_service} {lease.trust_id} {stack_id}', read_status)


def list_reserved_members(conn: 'connections.Connection', all_projects: bool) -> set[str]:
    """Return the ids of the servers and volumes that wait for a lease, in two calls per thousand.

    :param all_projects: of all projects, which administrators may request; else of its own
    """
    waiting = set(servers.list_ids(conn, all_projects, status='RESERVED'))
    if volumes.CINDER.is_offered(conn):
        waiting |= set(volumes.list_ids(conn, all_projects, status='lease-reserved'))
    return waiting


def are_all_members_reserved(
    conn: 'connections.Connection', lease: model.Lease, stack: model.Reservation
) -> bool:
    """Return whether a stack has members, and all of them are reserved."""
    members = {
        r.resource_id for r in lease.live if r.params.get(STACK_ID_KEY) == stack.resource_id
    }
    return bool(members) and members <= list_reserved_members(conn, all_projects=False)


def _is_kept(lease: model.Lease, stack: model.Reservation) -> bool:
    """Return whether the end of the lease was the end of a stack, with a keeping end action.

    A stack that was never recorded as active may have started in part: it is kept, too.
    """
    was_removed = bool(lease.events_of(model.END_RESERVATION, reservation_id=stack.id))
    ended = stack.status == _S.DELETED and not stack.missing_resources and not was_removed
    return ended and stack.params.get('on_end') in STACK_KEEPING_END_ACTIONS


LOG = log.getLogger(__name__)

#: Maximum number of reservations that are read one by one; more are listed.
_MAX_SINGLE_READS = 10
#: The name of an option, see :func:`first_poll_option`.
_FIRST_POLL_OPTION = 'first_poll_seconds'


def on_end_option(
    choices: Mapping[str, str], resource: str, never_woken: str | None = None
) -> cfg.StrOpt:
    """Return the option of the default end action of a reservation.

    :param choices: the end actions with their explanation
    """
    return cfg.StrOpt(
        'on_end',
        default='delete',
        choices=list(choices.items()),
        help=f'What happens to a {resource} at the end of its lease, unless the reservation sets '
        f'it.{f" {never_woken} is always deleted." if never_woken else ""}',
    )


def first_poll_option(service: str, section: str) -> cfg.FloatOpt:
    """Return the option of the first poll after a request.

    :param section: the one with the options of the notifications of the service
    """
    return cfg.FloatOpt(
        _FIRST_POLL_OPTION,
        default=FIRST_POLL_SECONDS,
        min=0.1,
        max=30.0,
        help=f'Seconds from a request to {service} to the first poll of its result; later polls '
        f'follow at growing intervals. Where {service} notifies (section [{section}]), a '
        'notification between two polls brings the next poll forward, so that 5 saves most of the '
        'calls.',
    )


def lead_option(purpose: str) -> cfg.IntOpt:
    """Return the option of the time before the start at which resources are created.

    :param purpose: what happens to which resources then, and why
    """
    return cfg.IntOpt(
        'lead_seconds',
        default=300,
        min=0,
        help='Seconds before the start of a lease of the kind scheduled at which ' + purpose,
    )


def end_action_schema(choices: Iterable[str]) -> dict[str, Any]:
    """Return the properties of a reservation of a resource with these end actions."""
    return {
        'resource_id': {'type': 'string', 'format': 'uuid'},
        'on_end': {'type': 'string', 'enum': list(choices)},
    }


class ResourceCalls(Protocol):
    """The calls to the service of a resource: a module of :mod:`climate_core.cloud`.

    All take the connection whose rights they use, and raise what :mod:`.cloud.errors` has.
    """

    def get(self, conn: Any, resource_id: str, /) -> Any:
        """Return a resource as its service shows it."""

    def read_project(self, resource: Any, /) -> str | None:
        """Return the project of a resource; None: these rights do not see it."""

    def delete(self, conn: Any, resource: Any, /) -> Any:
        """Request the deletion of a resource: of an id, or of a stack."""

    def list_ids(self, conn: Any, /) -> Iterable[str]:
        """Return the ids of the resources of all projects."""

    def check_all_visible(self, conn: Any, /) -> None:
        """Raise Forbidden if these rights do not see the resources of every project."""


class OwnServicePlugin(LeaseManaged):
    """Reserve resources of one type that exist, reserved, until they are started.

    A subclass gives the class attributes, and what is done in which state of a resource; all that
    it does may raise Gone if the resource is no more. What is final reads the resource
    and its project before each step.
    """

    required: ClassVar[Sequence[str]] = ('resource_id',)
    changeable = ('on_end',)
    wakes_as_owner = True

    calls: ResourceCalls
    #: Reason for a resource that no longer exists, without a full stop.
    gone_reason: ClassVar[str]
    #: The name of the option with the prefix of the names of copies, if there are any.
    prefix: ClassVar[str] = ''
    #: The errors by which its service rejects an end action, see :meth:`_end_as_accepted`.
    rejections: ClassVar[tuple[type[exceptions.PluginFailure], ...]] = ()
    #: Whether a reconciliation lists all resources once; else those of each page.
    lists_all: ClassVar[bool] = True

    def __init__(self, conf: cfg.ConfigOpts, cloud: 'Cloud') -> None:
        super().__init__(conf, cloud)
        self._parents = ParentStacks(cloud)

    @abc.abstractmethod
    def _wake(self, context: StepContext, resource: Any) -> PollAgain | None:
        """Take the next step of the wake-up, with the rights of the lease's owner.

        :param resource: the resource, as its service shows it now
        """

    @abc.abstractmethod
    def _end(self, context: EndContext, resource: Any) -> PollAgain | None:
        """Take the next step of the end; it is retried after each exception.

        :param resource: the resource, as its service shows it now
        """

    def _usual_end(self, context: EndContext) -> str:
        """Return the end action in place of one that its service rejects each time."""
        return str(context.options.on_end)

    def _end_as_accepted(self, context: EndContext, resource: Any) -> PollAgain | None:
        """Take the next step of the end, and record a rejection by its service.

        After several rejections the usual end action replaces the requested one: the same request
        would be rejected again, and the resource would hold its capacity without limit.
        """
        usual_action, instead = self._usual_end(context), None
        if usual_action != context.on_end and context.progress.is_rejected(
            context.on_end, context.now
        ):
            instead = (
                f'{str(self.service).capitalize()} rejects the end action {context.on_end}, so '
                f'the usual one is done, {usual_action}: {context.progress.reason}'
            )
            context = context.with_on_end(usual_action)
        try:
            wait = self._end(context, resource)
        except self.rejections as exc:
            if instead is None:
                stored = exc.progress or context.progress.dump()
                progress = Progress.load(stored, step_context.END, context.now)
                exc.progress = progress.with_rejection(
                    context.on_end, str(exc), context.now
                ).dump()
            raise
        if wait is None:
            if instead is not None:
                LOG.warning('%s %s: %s', self.title, context.resource_id, instead)
            return None
        return dataclasses.replace(wait, reason=instead or wait.reason)

    def _end_uncreated(self, context: EndContext) -> PollAgain | None:  # noqa: ARG002
        """Take the next step of the end of a reservation whose resource is not created yet."""
        return None

    @abc.abstractmethod
    def _reserved_since(self, resource: Any) -> datetime.datetime | None:
        """Return when a reserved resource last changed; None if it is not reserved."""

    def _lost_reason(
        self,
        reservation: 'Reservation',  # noqa: ARG002
        resource: Any,  # noqa: ARG002
    ) -> str | None:
        """Return why an existing resource is lost nevertheless; None if it is not."""
        return None

    @property
    def _was_deleted(self) -> str:
        return f'{self.gone_reason} outside of the lease.'

    def _normalized_params(self, values: Mapping[str, Any]) -> dict[str, Any]:
        on_end = values.get('on_end') or self.conf[self.resource_type].on_end
        stack_id = values.get(STACK_ID_KEY)
        return {'on_end': on_end, **({STACK_ID_KEY: stack_id} if stack_id else {})}

    def start(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | None:
        if is_woken_by_heat(lease, reservation):
            return None
        if _is_first_try(lease, reservation):
            wait = self._wake_without_read(self._step(lease, reservation))
            if wait is not None:
                return wait
        return self._take_step(self._wake, lease, reservation)

    def _wake_without_read(self, context: StepContext) -> PollAgain | None:  # noqa: ARG002
        """Start a resource that should be reserved, without reading it before.

        Only for a service that rejects what the state of the resource does not allow.

        :returns: None if it was rejected: reading the resource shows what it needs
        """
        return None

    @final
    def _take_step(
        self,
        step: Callable[[StepContext, Any], PollAgain | None],
        lease: 'Lease',
        reservation: 'Reservation',
    ) -> PollAgain | None:
        """Take a step before the end with the rights of the owner and the resource as it is now.

        :raises climate_core.exceptions.Permanent: the resource is no more, or see the step
        """
        context = self._step(lease, reservation)
        try:
            resource = self.calls.get(context.conn, reservation.resource_id)
            foreign = self._describe_foreign(context.conn, lease, reservation, resource)
            if foreign:
                raise exceptions.Permanent(foreign)
            return step(context, resource)
        except errors.Gone as exc:
            raise exceptions.Permanent(f'{self.gone_reason}.') from exc

    def _describe_foreign(
        self,
        conn: 'connections.Connection',
        lease: 'Lease',
        reservation: 'Reservation',
        resource: Any,
    ) -> str | None:
        """Return a sentence for users if a resource is not of the project of its lease.

        Every step passes here before it changes something. The rights do not limit it: those of
        the service, and of an owner who is an administrator, reach all projects.

        :raises climate_core.cloud.errors.Forbidden: its service does not show the project to these
            rights, which may reach other projects
        """
        project_id = self.calls.read_project(resource)
        as_service = conn is self.cloud.service()
        if project_id == lease.project_id or (project_id is None and not as_service):
            return None
        named = f'The {self.title.lower()} {reservation.resource_id}'
        if project_id is None:
            raise errors.Forbidden(f'{named} does not show its project to the service.')
        LOG.error(
            '%s belongs to another project (%s) than its lease %s (%s), which leaves it as it is',
            named,
            project_id,
            lease.id,
            lease.project_id,
        )
        return f'{named} belongs to another project.'

    def _step(self, lease: 'Lease', reservation: 'Reservation') -> StepContext:
        """Return the context of a step before the end, with the rights of the owner."""
        now = self.now()
        return StepContext(
            step_context.connect_as_owner(self.cloud, lease),
            self.cloud,
            lease,
            reservation,
            Progress.load(reservation.progress, step_context.START, now),
            now,
            self.conf[self.resource_type],
            self._first_poll(),
        )

    def _first_poll(self) -> float:
        options = self.conf[self.resource_type]
        has_option = _FIRST_POLL_OPTION in options
        return float(options[_FIRST_POLL_OPTION]) if has_option else FIRST_POLL_SECONDS

    @final
    def end(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | None:
        return self._free(self._end_as_accepted, lease, reservation)

    @final
    def _free(
        self,
        step: Callable[[EndContext, Any], PollAgain | None],
        lease: 'Lease',
        reservation: 'Reservation',
    ) -> PollAgain | None:
        """Take the next step of the end, or the next that frees a resource.

        What is gone is free, and so is what belongs to another project.

        :raises climate_core.exceptions.Transient: it holds capacity as long as it exists, so each
            failure is retried
        :raises climate_core.cloud.errors.Forbidden: the service cannot tell that it is gone
        """
        conn, now = step_context.connect_at_end(self.cloud, lease), self.now()
        options = self.conf[self.resource_type]
        try:
            context = EndContext(
                conn,
                self.cloud,
                lease,
                self._parents.at_end(conn, lease, reservation),
                Progress.load(reservation.progress, step_context.END, now),
                now,
                options,
                self._first_poll(),
                prefix=options[self.prefix] if self.prefix else '',
            )
            try:
                if not reservation.is_made:
                    return self._end_uncreated(context)
                found = self.calls.get(conn, reservation.resource_id)
                foreign = self._describe_foreign(conn, lease, reservation, found)
                return None if foreign else step(context, found)
            except errors.Gone:
                if context.as_service:
                    self.calls.check_all_visible(conn)
                return None
        except exceptions.Permanent as exc:
            raise exceptions.Transient(str(exc), exc.progress) from exc

    def reconcile(
        self, pages: Iterable[Sequence['Reservation']]
    ) -> Iterator[tuple['Reservation', str]]:
        listed: set[str] | None = None
        for page in pages:
            # A resource that was not created yet is not missing.
            reservations = [reservation for reservation in page if reservation.is_made]
            if not reservations:
                continue
            conn = self.cloud.service()
            # Without the right to list all projects every resource would appear deleted.
            self.calls.check_all_visible(conn)
            seen: Collection[str] = ()
            if len(reservations) > _MAX_SINGLE_READS:
                if listed is None or not self.lists_all:
                    listed = self._list_existing(conn, [r.resource_id for r in reservations])
                seen = listed
            for reservation in reservations:
                # A listing by pages can miss what is created concurrently or later: read it.
                if reservation.resource_id not in seen:
                    reason = self._read_lost_reason(conn, reservation)
                    if reason is not None:
                        yield reservation, reason

    def _list_existing(
        self,
        conn: 'connections.Connection',
        ids: Collection[str],  # noqa: ARG002
    ) -> set[str]:
        """Return which of many resources exist, perhaps with others."""
        return set(self.calls.list_ids(conn))

    def _read_lost_reason(
        self, conn: 'connections.Connection', reservation: 'Reservation'
    ) -> str | None:
        """Return why a resource is lost, as its service shows it now; None if it is not."""
        try:
            return self._lost_reason(reservation, self.calls.get(conn, reservation.resource_id))
        except errors.Gone:
            return self._was_deleted

    def unleased_since(self, resource_id: str) -> datetime.datetime | None:
        try:
            return self._reserved_since(self.calls.get(self.cloud.service(), resource_id))
        except errors.Gone:
            return None

    def discard(self, resource_id: str) -> None:
        with contextlib.suppress(errors.Gone):
            self.calls.delete(self.cloud.service(), resource_id)


class CreatedForLeasePlugin(OwnServicePlugin, Specified):
    """Reserve resources of one type, also such that are created for their lease."""

    @property
    def _lead_time(self) -> datetime.timedelta:
        return datetime.timedelta(seconds=self.conf[self.resource_type].lead_seconds)

    def rollback_prepare(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | None:
        params = {**reservation.params, 'on_end': 'delete'}
        return self.end(lease, dataclasses.replace(reservation, params=params))


def _is_first_try(lease: 'Lease', reservation: 'Reservation') -> bool:
    start = lease.event(model.START)
    is_new = reservation.progress is None and reservation.woken_at is None
    return is_new and start is not None and not start.attempts
