# SPDX-License-Identifier: Apache-2.0
"""Hosts of the pools, their states, and why one takes no allocations: pure.

A host is one node of a nova-compute. What Nova and Placement report of it are its details;
what the operator adds are its extra properties. Both are flat, so that a filter can name
each of them. Whether a host has failed follows from its service in Nova, with the time
since when: nothing has to be remembered.
"""

import dataclasses
import enum
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Self

from climate_common import dates
from climate_core import exceptions
from climate_core.plugins import filters
from climate_core.plugins.filters import NODE_FACTS
from climate_hosts.nodes import Node
from climate_hosts.power.states import AWAKE, PowerState

#: The kind of the units of hosts.
KIND: Final = 'host'
DEFAULT_POOL: Final = 'default'
#: The reason of a shared host that an operator has disabled without a reason.
DISABLED: Final = 'The host is disabled.'
#: The reason of a host whose removal was rejected when it was done in part.
STAYING: Final = 'The host was not removed from its pool: it has servers.'


class State(enum.StrEnum):
    """The state of a host of a pool. It takes allocations only if it is ENROLLED."""

    #: It is being added to its pool.
    ENROLLING = 'enrolling'
    #: The enrolment failed, and the host could not be returned to ordinary servers yet.
    NOT_ENROLLED = 'not_enrolled'
    ENROLLED = 'enrolled'
    #: Its nova-compute is down, or it is up again and not empty yet.
    FAILED = 'failed'
    #: It is being evacuated for a lease if it is a shared host, else drained to be in its pool.
    EMPTYING = 'emptying'
    #: A shared host is being returned to ordinary servers.
    RETURNING = 'returning'
    #: It is being removed from its pool.
    LEAVING = 'leaving'


#: The enrolment of a host is in progress, was interrupted, or has failed.
HALF_ENROLLED: Final = (State.ENROLLING, State.NOT_ENROLLED)
#: Why a host takes no allocations in states that need no details.
_REASONS: Final = {
    State.ENROLLING: 'The host is being added to its pool.',
    State.NOT_ENROLLED: 'The host could not be added to its pool.',
    State.RETURNING: 'The host is being returned to ordinary servers.',
    State.LEAVING: 'The host is being removed from its pool.',
}


@dataclasses.dataclass(frozen=True, slots=True)
class Pool:
    """A pool of hosts.

    :param hosts: the number of its hosts
    :param project_ids: with those of ``domain_ids`` the projects that may use it; none: all
    :param generation: counts the changes of who may use it
    """

    name: str
    hosts: int
    project_ids: Sequence[str] = ()
    domain_ids: Sequence[str] = ()
    generation: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Host(Node):
    """A host of a pool.

    :param id: of its unit in the calendar
    :param available: whether it takes new allocations
    :param provider_id: the root provider in Placement
    :param lane_ids: its lanes in Placement, in the order of their numbers
    :param extra: the properties that the operator set, as they were sent
    :param disabled_reason: the reason of its operator for disabling it, or why it failed
    :param emptied_for: the id of the lease for which it is drained
    :param open_to_unreserved: whether ordinary servers may run on a shared host now, because no
        lease has it; None: it is not shared, and they may not
    :param power: None: it is on
    :param power_since: when it came into this state
    :param kept_on: whether an operator wants it to stay on
    :param wake_seconds: how long it takes to power on; None: not measured
    """

    id: int
    pool: str
    available: bool
    provider_id: str
    lane_ids: tuple[str, ...]
    extra: Mapping[str, Any]
    state: State = State.ENROLLED
    disabled_reason: str | None = None
    emptied_for: str | None = None
    open_to_unreserved: bool | None = None
    power: PowerState | None = None
    power_since: datetime | None = None
    kept_on: bool = False
    wake_seconds: int | None = None
    created_at: datetime
    updated_at: datetime | None = None

    @classmethod
    def from_row(cls, row: Mapping[Any, Any]) -> Self:
        """Create it from the columns of its row and its unit."""
        values = {field.name: row[field.name] for field in dataclasses.fields(cls)}
        values['lane_ids'] = tuple(row['lane_ids'])
        values['state'] = State(row['state'])
        values['power'] = PowerState(row['power']) if row['power'] else None
        values['kept_on'] = bool(row['kept_on'])
        return cls(**values)

    @property
    def reason(self) -> str | None:
        """Return why it takes no allocations; None: it takes some, or the reason is unknown."""
        match self.state:
            case State.ENROLLED:
                return self.disabled_reason
            case State.FAILED:
                return f'Failed: {self.disabled_reason}'
            case State.EMPTYING if self.emptied_for is not None:
                return f'The host is being drained for lease {self.emptied_for}'
            case State.EMPTYING:
                return f'The host is being drained. {self.disabled_reason or ""}'.strip()
        return _REASONS[self.state]

    @property
    def power_state(self) -> str:
        """Return its power state as the API shows it."""
        return str(self.power or AWAKE)

    @property
    def is_leaving(self) -> bool:
        """Return whether it is being removed from its pool."""
        return self.state is State.LEAVING

    @property
    def is_new(self) -> bool:
        """Return whether its enrolment has not ended, or has failed."""
        return self.is_draining or self.is_half_enrolled

    @property
    def is_half_enrolled(self) -> bool:
        """Return whether its enrolment is in progress, was interrupted, or has failed."""
        return self.state in HALF_ENROLLED

    @property
    def is_draining(self) -> bool:
        """Return whether it is being drained to be in its pool."""
        return self.state is State.EMPTYING and self.emptied_for is None

    @property
    def is_isolated(self) -> bool:
        """Return whether ordinary servers are to be kept off it."""
        given_back = (State.RETURNING, State.LEAVING, State.NOT_ENROLLED)
        return not self.open_to_unreserved and self.state not in given_back

    @property
    def is_enabled(self) -> bool:
        """Return whether it takes allocations, now or once no ordinary servers run there."""
        enabled = self.state is State.ENROLLED and self.disabled_reason is None
        return self.available or (bool(self.open_to_unreserved) and enabled)

    @property
    def is_returning(self) -> bool:
        """Return whether it is being returned to ordinary servers."""
        return self.state is State.RETURNING

    @property
    def is_shared(self) -> bool:
        """Return whether ordinary servers may run there while no lease has it."""
        return self.open_to_unreserved is not None

    @property
    def failed(self) -> bool:
        """Return whether it takes no allocations because it failed, not because it is disabled."""
        return self.state is State.FAILED

    def can_power_off(self) -> bool:
        """Return whether it is on, and may be powered off where nothing is allocated of it."""
        is_usable = self.available and not self.is_shared and self.state is State.ENROLLED
        return is_usable and self.power is None and not self.kept_on

    def knows(self, node: Node) -> bool:
        """Return whether it matches its description by Nova and Placement."""
        return all(
            getattr(self, field.name) == getattr(node, field.name)
            for field in dataclasses.fields(Node)
        )


#: The fields of a host in the API, and of its clients, that are no extra properties.
OWN_FIELDS: Final = frozenset(
    {
        *NODE_FACTS,
        'id',
        'name',
        'pool',
        'reservable',
        'disabled',
        'disabled_reason',
        'capacity',
        'lanes',
        'shared',
        'power',
        'kept_on',
        'empty',
        'cpu_info',
        'status',
        'state',
        'trust_id',
        'created_at',
        'updated_at',
        'values',
    }
)


def check_disabled_reason(reason: str | None, available: bool) -> None:
    """Reject a reason for disabling a host if it is not disabled.

    :raises climate_core.exceptions.BadRequest: naming the field
    """
    if available and reason:
        raise exceptions.BadRequest(
            'disabled_reason: is accepted only with disabled: true, or for a disabled host.',
            field='disabled_reason',
        )


def check_not_evacuating(host: Host) -> None:
    """Reject a change of a host while it is evacuated for a lease.

    :raises climate_core.exceptions.HostChanging: it is
    """
    if host.emptied_for is not None:
        raise exceptions.HostChanging(
            f'Host {host.hypervisor_hostname} is being drained for lease {host.emptied_for}. Wait '
            'for that, or end the lease.'
        )


def draining_error(host: Host) -> exceptions.HostChanging:
    """Return the error for a host that is being drained to be in its pool."""
    return exceptions.HostChanging(
        f'Host {host.hypervisor_hostname} is being drained, and is enrolled after that. Wait for '
        'it, or delete the host to cancel.'
    )


def check_awake(host: Host) -> None:
    """Reject the removal of a host that is off: it would stay off afterwards.

    A host that was not up in time may be removed.

    :raises climate_core.exceptions.HostChanging: it is
    """
    if host.power is not None and not has_failed_to_wake(host):
        raise exceptions.HostChanging(
            f'Host {host.hypervisor_hostname} is {host.power_state}. Keep it on first with '
            f'"openstack lease host set {host.hypervisor_hostname} --keep-on", and wait until it '
            'is on.'
        )


def has_failed_to_wake(host: Host) -> bool:
    """Return whether a host was not up in time, also if it is being removed since then."""
    return host.power is PowerState.WAKING and (host.failed or host.is_leaving)


def check_extra(extra: Mapping[str, Any]) -> None:
    """Reject extra properties with invalid names, or with the names of fields of the API.

    :raises climate_core.exceptions.BadRequest: naming the field
    """
    filters.check_extra_names(extra, OWN_FIELDS, 'comes from Nova or Placement')


def find_failure(
    service: Mapping[str, Any] | None, name: str, now: datetime, seconds: float
) -> str | None:
    """Return why a host has failed; None if it has not, or not yet.

    :param service: as ``/os-services`` shows it at microversion 2.69 or later; None if Nova has
        none. One in a cell that does not answer has no state, which says nothing
    :param name: of the service, for the message
    :param seconds: for how long a service must have been silent
    """
    if service is None:
        return f'Nova has no nova-compute on {name} any more.'
    if service.get('forced_down'):
        return f'The nova-compute on {name} is forced down.'
    seen = service.get('updated_at')
    if service.get('state') != 'down' or not seen:
        return None
    since = datetime.fromisoformat(seen).replace(tzinfo=UTC)
    if (now - since).total_seconds() < seconds:
        return None
    return f'The nova-compute on {name} is down since {dates.sentence(since)}.'


def is_service_up(service: Mapping[str, Any] | None) -> bool:
    """Return whether a host is certain to be up."""
    return service is not None and service.get('state') == 'up' and not service.get('forced_down')


def find_outage(
    services: Mapping[str, Mapping[str, Any]], names: Collection[str], share: float
) -> str | None:
    """Return why Nova itself has failed, and not its hosts; None if it has not.

    A silent service counts immediately, and not only when its host has failed: in an outage all
    services fall silent within seconds, and the first host must not be replaced before the last
    has failed. A service that is forced down does not count: its operator has decided about it.

    :param services: as Nova shows them, by their names
    :param names: of the services whose hosts have not failed yet; a service may have several
    :param share: of the services that may be down; at least two must be
    """
    every = {*names}
    down = {name for name in every if _looks_down(services.get(name))}
    if len(down) < 2 or len(down) <= share * len(every):
        return None
    return f'{len(down)} of {len(every)} nova-computes of the pools are down at the same time'


def _looks_down(service: Mapping[str, Any] | None) -> bool:
    if service is None:
        return True
    return service.get('state') == 'down' and not service.get('forced_down')
