# SPDX-License-Identifier: Apache-2.0
"""Reserve what the calendar allocates: hosts, shares of hosts, networks and floating IPs."""

import abc
import dataclasses
import datetime
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from oslo_config import cfg
from oslo_utils import uuidutils

from climate_common import limits
from climate_core import exceptions
from climate_core.calendar.model import Demand
from climate_core.plugins.base import CalendarBacked, PollAgain, ReservedResource

if TYPE_CHECKING:
    from climate_core.context import RequestContext
    from climate_core.lease.model import AllocatedUnit, Lease, Reservation

#: Seconds between two polls of what an earlier lease has left.
POLL_SECONDS: Final = 1.0
#: Number of polls until a unit is expected to be free.
_POLLS_UNTIL_FREE: Final = 60

#: The owner of a reservation, among its params.
_PROJECT_KEY: Final = '_project_id'
_DOMAIN_KEY: Final = '_domain_id'

CLEANING_OPTION: Final = cfg.IntOpt(
    'cleaning_seconds',
    default=0,
    min=0,
    help='How long reserved units are kept free after each lease.',
)


def owner_params(context: 'RequestContext') -> dict[str, Any]:
    """Return the project and domain of a request, which later changes by users do not touch."""
    return {_PROJECT_KEY: context.project_id, _DOMAIN_KEY: context.project_domain_id}


def owner_of(params: Mapping[str, Any]) -> tuple[str | None, str | None] | None:
    """Return the project and domain of a reservation; None: they are not stored."""
    if _PROJECT_KEY not in params:
        return None
    return params[_PROJECT_KEY], params.get(_DOMAIN_KEY)


class CalendarPlugin(CalendarBacked):
    """Reserve units of the calendar, or pieces of them.

    Its options have :data:`CLEANING_OPTION`.
    """

    #: The property with the requested amount, which is the invalid field of a shortage.
    amount_field: ClassVar[str]
    #: What the calendar allocates, for users.
    noun: ClassVar[str]

    @abc.abstractmethod
    def _normalized_params(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a request, with the defaults."""

    @abc.abstractmethod
    def amounts(self, params: Mapping[str, Any]) -> Mapping[str, int]:
        """Return the amounts of a reservation, by unit."""

    @abc.abstractmethod
    def _demand(self, params: Mapping[str, Any]) -> Demand:
        """Return the demand on the calendar.

        :raises climate_core.exceptions.BadRequest: the params have no meaning together
        """

    def _build_reserved(self, params: Mapping[str, Any]) -> ReservedResource:
        """Return what the calendar allocates later; BadRequest as of :meth:`_demand`."""
        self._demand(params)
        # The calendar has no id for an allocation: a reservation is found by its own id.
        resource_id = uuidutils.generate_uuid()
        return ReservedResource(
            resource_id, params, self.amounts(params), unit_kind=self.unit_kind
        )

    def normalize(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return values of a change in the form in which a new reservation stores them."""
        normalized = self._normalized_params(values)
        return {name: normalized.get(name) for name in values}

    def read_demand(self, reservation: 'Reservation') -> Demand:
        return dataclasses.replace(
            self._demand(reservation.params),
            reservation_id=reservation.id,
            field=self.amount_field,
            noun=self.noun,
            after=self.cleaning(reservation),
        )

    def cleaning(self, reservation: 'Reservation') -> datetime.timedelta:  # noqa: ARG002
        return datetime.timedelta(seconds=self.conf[self.resource_type].cleaning_seconds)

    def request_keys(
        self,
        lease_id: str,  # noqa: ARG002
        values: Mapping[str, Any],
    ) -> Sequence[Hashable]:
        return [limits.encode(self._normalized_params(values))]

    def reservation_keys(self, reservation: 'Reservation') -> Sequence[Hashable]:
        params = reservation.params
        return [limits.encode({name: params[name] for name in params if name[:1] != '_'})]

    def _check_allocated(self, reservation: 'Reservation') -> None:
        """Raise Permanent if a reservation has no allocation."""
        if not reservation.allocations:
            raise exceptions.Permanent(
                f'The calendar has no allocation of a {self.unit_kind} for this reservation: an '
                'operator must check the log of climate-manager.'
            )

    def _wait_for_unit(
        self, lease: 'Lease', allocation: 'AllocatedUnit', reason: str
    ) -> PollAgain | None:
        """Wait for a unit whose allocation starts later than the lease.

        :param reason: the reason
        """
        rest = (allocation.start - self.now()).total_seconds()
        # The clocks of the database and of this machine may differ a little.
        if allocation.start <= lease.start_date or rest <= POLL_SECONDS:
            return None
        return PollAgain(max(POLL_SECONDS, rest / _POLLS_UNTIL_FREE), reason)
