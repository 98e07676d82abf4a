# SPDX-License-Identifier: Apache-2.0
"""Objects that operations on leases share, and the host evacuation that a package may add."""

import dataclasses
from collections.abc import Mapping

from oslo_config import cfg
from sqlalchemy import orm

from climate_core.calendar.calendar import Calendar
from climate_core.cloud import Cloud
from climate_core.cloud.trusts import Trusts
from climate_core.db.engine import Database
from climate_core.db.sql import Clock
from climate_core.exceptions import NotEnough
from climate_core.lease.model import Lease
from climate_core.operations.draft import Draft
from climate_core.plugins.base import PollAgain, ResourcePlugin


class HostEvacuation:
    """Evacuate hosts for leases of the kind best_effort; a package overrides it.

    This class evacuates no hosts: no installed package has hosts.
    """

    def choose_hosts(self, draft: Draft, refused: NotEnough) -> tuple[int, ...]:  # noqa: ARG002
        """Return the ids of the hosts that are to be evacuated for a new lease.

        :param refused: the rejection without an evacuation
        :raises climate_core.exceptions.NotEnough: too few can be evacuated
        :raises climate_core.exceptions.BadRequest: the lease starts too late
        """
        raise refused

    def take_hosts(self, session: orm.Session, draft: Draft, lease: Lease) -> Lease:  # noqa: ARG002
        """Take the hosts that are to be evacuated for the new lease of a draft; return the lease.

        :raises climate_core.exceptions.NotEnough: another lease has taken one of them
        """
        return lease

    def step(self, lease: Lease) -> PollAgain | None:  # noqa: ARG002
        """Take the next step of the evacuation for a lease.

        :returns: until when to wait; None: the lease no longer needs an evacuation
        :raises climate_core.exceptions.Permanent: it timed out
        """
        return None


@dataclasses.dataclass(eq=False)
class Services:
    """The parts of a manager that its operations share."""

    conf: cfg.ConfigOpts
    database: Database
    clock: Clock
    plugins: Mapping[str, ResourcePlugin]
    calendar: Calendar
    trusts: Trusts
    cloud: Cloud
