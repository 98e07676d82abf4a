# SPDX-License-Identifier: Apache-2.0
"""Hosts of the pools, their states, and why one takes no promises: pure.

A host is one node of a nova-compute. What Nova and Placement say of it are its details; what the
operator adds are its extra properties. Both are flat, so that a filter can name each of them.
"""

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from climate_core.lease.unit_properties import Node
from climate_hosts.domain.power import AWAKE, PowerState

#: The kind of the units of hosts.
KIND: Final = 'host'
DEFAULT_POOL: Final = 'default'
#: The reason of a shared host that an operator has disabled without one.
DISABLED: Final = 'The host is disabled.'
#: The reason of a host that was refused to be taken out when that was done in part.
STAYING: Final = 'The host was not taken out of its pool: it has servers.'


class State(enum.StrEnum):
    """The state of a host of a pool. It takes promises only if it is ENROLLED."""

    #: It is put into its pool.
    ENROLLING = 'enrolling'
    #: That failed, and it could not be given back yet.
    NOT_ENROLLED = 'not_enrolled'
    ENROLLED = 'enrolled'
    #: Its nova-compute is down, or it is up again and not empty yet.
    FAILED = 'failed'
    #: Its servers leave it: for a lease if it is a shared host, else so that it is in its pool.
    EMPTYING = 'emptying'
    #: A shared host is given back to ordinary servers.
    RETURNING = 'returning'
    #: It is taken out of its pool.
    LEAVING = 'leaving'


#: Why a host takes no promises in a state, unless that says more.
_REASONS: Final = {
    State.ENROLLING: 'The host is being enrolled.',
    State.NOT_ENROLLED: 'The host could not be enrolled.',
    State.RETURNING: 'The host is being given back to ordinary servers.',
    State.LEAVING: 'The host is being taken out of its pool.',
}


@dataclasses.dataclass(frozen=True, slots=True)
class Pool:
    """A pool of hosts.

    :param hosts: how many it has
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
    :param available: whether it takes new promises
    :param provider_id: the root provider in Placement
    :param lane_ids: its lanes in Placement, in the order of their numbers
    :param extra: the properties that the operator gave it, as they were given
    :param disabled_reason: what its operator said when it was disabled, or why it failed
    :param emptied_for: the id of the lease for which its servers leave it
    :param takes_ordinary: whether ordinary servers may run on a shared host now, because no lease
        has it; None: it is not shared, and they may not
    :param power: None: it is awake
    :param power_since: when it came into this state
    :param kept_on: whether an operator wants it to stay awake
    :param wake_seconds: how long it took to wake; None: that was not measured
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
    takes_ordinary: bool | None = None
    power: PowerState | None = None
    power_since: datetime | None = None
    kept_on: bool = False
    wake_seconds: int | None = None
    created_at: datetime
    updated_at: datetime | None = None

    @property
    def reason(self) -> str | None:
        """Return why it takes no promises; None: it takes some, or the reason is not known."""
        match self.state:
            case State.ENROLLED:
                return self.disabled_reason
            case State.FAILED:
                return f'Failed: {self.disabled_reason}'
            case State.EMPTYING if self.emptied_for is not None:
                return f'The host is being emptied for lease {self.emptied_for}'
            case State.EMPTYING:
                return f'The host is being emptied. {self.disabled_reason or ""}'.strip()
        return _REASONS[self.state]

    @property
    def power_state(self) -> str:
        """Return its power state, for people."""
        return str(self.power or AWAKE)

    @property
    def is_leaving(self) -> bool:
        """Return whether it is being taken out of its pool."""
        return self.state is State.LEAVING

    @property
    def is_new(self) -> bool:
        """Return whether its enrolment has not ended, or has failed."""
        return self.is_emptied or self.is_half_enrolled

    @property
    def is_half_enrolled(self) -> bool:
        """Return whether a request is putting it into a pool, was cut off at that, or failed."""
        return self.state in (State.ENROLLING, State.NOT_ENROLLED)

    @property
    def is_emptied(self) -> bool:
        """Return whether its servers leave it so that it is in its pool."""
        return self.state is State.EMPTYING and self.emptied_for is None

    @property
    def is_kept(self) -> bool:
        """Return whether ordinary servers are to be kept off it."""
        given_back = (State.RETURNING, State.LEAVING, State.NOT_ENROLLED)
        return not self.takes_ordinary and self.state not in given_back

    @property
    def is_enabled(self) -> bool:
        """Return whether it takes promises, now or once no ordinary servers run there."""
        enabled = self.state is State.ENROLLED and self.disabled_reason is None
        return self.available or (bool(self.takes_ordinary) and enabled)

    @property
    def is_returning(self) -> bool:
        """Return whether it is being given back to ordinary servers."""
        return self.state is State.RETURNING

    @property
    def is_shared(self) -> bool:
        """Return whether ordinary servers may run there while no lease has it."""
        return self.takes_ordinary is not None

    @property
    def failed(self) -> bool:
        """Return whether it takes no promises because it failed, not because it is disabled."""
        return self.state is State.FAILED

    def knows(self, known: Node) -> bool:
        """Tell whether it is as Nova and Placement know it."""
        return all(
            getattr(self, each.name) == getattr(known, each.name)
            for each in dataclasses.fields(Node)
        )
