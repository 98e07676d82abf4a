# SPDX-License-Identifier: Apache-2.0
"""Check whether a lease may be created, changed or enlarged, before anything is written.

The limits of the project and the external service are interfaces: without configuration they
permit everything. The usage of a project is counted once more in the transaction that
writes, see :mod:`climate_core.db.project_limits`: that count decides. With nothing of section
``[limits]`` turned on the check costs neither a statement nor a request.
"""

import dataclasses
import datetime
import math
import sys
from collections.abc import Iterable
from typing import Final

from oslo_config import cfg
from sqlalchemy import orm

from climate_common.limits import LEASE_BYTES, encode
from climate_core import exceptions
from climate_core.cloud.external_service import ExternalService
from climate_core.cloud.limits import Limits
from climate_core.concurrency import RecentCache, check_deadline
from climate_core.conf.limits import TIME_LIMITS
from climate_core.db import project_limits, store
from climate_core.db.engine import Database
from climate_core.db.project_limits import Amounts
from climate_core.lease import events, model
from climate_core.lease.request import RAISE_FIRST, ErrorCollector

#: For how long a create relies on what the last transaction of its project has counted.
_USAGE_CACHE_SECONDS: Final = 10.0


@dataclasses.dataclass
class Quota:
    """Check leases against the limits of the operator."""

    conf: cfg.ConfigOpts
    database: Database
    project_limits: Limits
    external: ExternalService

    def __post_init__(self) -> None:
        size = self.conf.cloud.owner_cache_size
        self._noted: RecentCache[Amounts] = RecentCache(size, _USAGE_CACHE_SECONDS)

    def check_quota(
        self,
        lease: model.Lease,
        now: datetime.datetime,
        before: model.Lease | None = None,
        errors: ErrorCollector = RAISE_FIRST,
        creates_nothing: bool = False,
    ) -> Amounts | None:
        """Reject a lease that is too long, too far ahead, or over a limit.

        The external service is asked by :meth:`check_external`, last.

        :param lease: the lease as it shall be
        :param before: the lease as it is; None for a new one
        :param creates_nothing: whether the count of the transaction suffices for a new lease, if
            the usage of the project was low a moment ago
        :returns: the limits of the project, for the transaction that writes; None: none
        :raises climate_core.exceptions.Forbidden: it is
        :raises climate_core.exceptions.ServiceUnavailable: a service does not answer
        """
        check_deadline()
        most = None
        if before is None:
            most = self.project_limits.recent(lease.project_id)
            self.check_recent_time(lease, now, most, errors=errors)
        with errors.collected():
            self.check_events(lease, before)
        creates_nothing = creates_nothing and not self.asks_external(lease, before)
        with errors.collected():
            return self.check_limits(lease, before, creates_nothing, most)
        return None

    def check_external(self, lease: model.Lease, before: model.Lease | None = None) -> None:
        """Check that the external service permits a new lease or a change, if it is asked.

        :raises climate_core.exceptions.LeaseNotPermitted: it does not
        :raises climate_core.exceptions.ServiceUnavailable: it does not answer
        """
        if self.asks_external(lease, before):
            if before is None:
                self.external.check_create(lease)
            else:
                self.external.check_update(before, lease)

    def check_time(
        self,
        lease: model.Lease,
        now: datetime.datetime,
        before: model.Lease | None = None,
        errors: ErrorCollector = RAISE_FIRST,
        most: Amounts | None = None,
    ) -> None:
        """Reject a lease that is too long or too far ahead. Pure: for use in a transaction, too.

        A change that makes it neither longer nor later is fine, whatever the operator allows now.

        :param most: the limits of its project, for those that Keystone has
        """
        section = self.conf.limits
        if lease.project_id in section.exempt_projects:
            return
        most = {name: section[name] for name in TIME_LIMITS} | dict(most or {})
        if before is None or is_longer(lease, before):
            with errors.collected():
                _check_length(lease.start_date, lease.end_date, most['max_lease_seconds'])
        if before is None or is_later(lease, before):
            with errors.collected():
                _check_ahead(lease.start_date, now, most['max_ahead_seconds'])

    def check_recent_time(
        self,
        lease: model.Lease,
        now: datetime.datetime,
        most: Amounts | None,
        before: model.Lease | None = None,
        errors: ErrorCollector = RAISE_FIRST,
    ) -> Amounts | None:
        """Check as :meth:`check_time` does; return the limits, which may have been read again.

        :param most: the limits of its project, a short time old
        """
        try:
            self.check_time(lease, now, before, most=most)
        except (exceptions.LeaseTooLong, exceptions.LeaseTooFarAhead):
            if has_time_limits(most):
                # They may have been raised since.
                most = self.project_limits.read_limits(lease.project_id)
            self.check_time(lease, now, before, errors, most)
        return most

    def check_events(self, lease: model.Lease, before: model.Lease | None) -> None:
        """Check the number of events that users added; fewer than before is always accepted. Pure.

        :param before: the lease as it is; None for a new one
        :raises climate_core.exceptions.BadRequest: it is more than ``events_per_lease``
        """
        most, number = self.conf.limits.events_per_lease, _count_user_events(lease)
        if number > most and (before is None or number > _count_user_events(before)):
            raise exceptions.BadRequest(
                f'events: a lease must have at most {most}, not {number}.', field='events'
            )

    def check_reservations(self, lease: model.Lease) -> None:
        """Check the number of reservations of a lease, see :func:`check_reservations`."""
        check_reservations(len(lease.live), self.conf.limits.reservations_per_lease)

    def check_changes(self, session: orm.Session, lease: model.Lease) -> None:
        """Check that a user may change a lease once more.

        See :func:`climate_core.db.store.check_changes`.
        """
        most = self.conf.limits.changes_per_lease
        store.check_changes(session, lease.id, lease.generation, most)

    def asks_external(self, lease: model.Lease, before: model.Lease | None = None) -> bool:
        """Return whether the external service checks a new lease, or a change of a lease."""
        if before is None:
            return self.external.on_create
        return self.external.on_update and _is_checked(before, lease)

    def commits(self, before: model.Lease, after: model.Lease) -> bool:
        """Return whether the external service is notified of a change that was saved."""
        return bool(self.conf.limits.external_update) and _is_checked(before, after)

    def available_from(
        self, lease: model.Lease, now: datetime.datetime
    ) -> datetime.datetime | None:
        """Return when the limits of the project allow a new lease; None if never."""
        held = self.database.read(project_limits.read_held, lease.project_id)
        most = self.project_limits.read_limits(lease.project_id) or {}
        return project_limits.available_from(most, count_added(lease, None), held, now)

    def note(self, project_id: str, used: Amounts | None) -> None:
        """Remember the count of a transaction; None: it has not counted."""
        if used is not None:
            self._noted.put(project_id, used)

    def check_limits(
        self,
        lease: model.Lease,
        before: model.Lease | None,
        creates_nothing: bool = False,
        most: Amounts | None = None,
    ) -> Amounts | None:
        """Reject a lease that takes its project over a limit.

        :param creates_nothing: see :meth:`check_quota`
        :param most: the limits of its project, if they have just been read
        :returns: the limits, for the transaction that writes; None: there are none, or the lease
            holds no more than before
        :raises climate_core.exceptions.LimitExceeded: it does
        """
        adding = count_added(lease, before)
        project_id = lease.project_id
        if most is None and any(adding.values()):
            most = self.project_limits.recent(project_id)
        if most is None:
            return None
        noted = self._noted.find(project_id) if creates_nothing else None
        if noted is not None and project_limits.fits_limits(most, noted, adding):
            return most
        # The transaction checks again; this one spares a trust and a call of the external service.
        used = self.database.read(project_limits.count_used, project_id)
        try:
            project_limits.enforce_limits(most, used, adding)
        except exceptions.LimitExceeded:
            # They may have been raised since.
            most = self.project_limits.read_limits(project_id) or {}
            project_limits.enforce_limits(most, used, adding)
        return most


def is_longer(lease: model.Lease, before: model.Lease) -> bool:
    """Return whether a change makes a lease longer."""
    return lease.end_date - lease.start_date > before.end_date - before.start_date


def is_later(lease: model.Lease, before: model.Lease) -> bool:
    """Return whether a change makes a lease start later."""
    return lease.start_date > before.start_date


def has_time_limits(most: Amounts | None) -> bool:
    """Return whether Keystone has limits of the times of leases."""
    return not TIME_LIMITS.keys().isdisjoint(most or ())


def _is_checked(before: model.Lease, after: model.Lease) -> bool:
    """Return whether a change is one that the external service checks."""
    times = (before.start_date, before.end_date) != (after.start_date, after.end_date)
    return times or len(after.reservations) > len(before.reservations)


def _check_length(start: datetime.datetime, end: datetime.datetime, most: float) -> None:
    """Reject a lease that is longer than ``most`` seconds by LeaseTooLong."""
    seconds = (end - start).total_seconds()
    if most != project_limits.UNLIMITED and seconds > most:
        # Rounded up: a part of a second too long must not be shown as the limit.
        length, limit = _format_seconds(math.ceil(seconds)), _format_seconds(most)
        message = f'A lease may be {limit} long at most, not {length}.'
        raise exceptions.LeaseTooLong(message, field='end_date')


def _check_ahead(start: datetime.datetime, now: datetime.datetime, most: float) -> None:
    """Reject a start more than ``most`` seconds ahead by LeaseTooFarAhead."""
    if most != project_limits.UNLIMITED and (start - now).total_seconds() > most:
        message = f'A lease may start {_format_seconds(most)} from now at most.'
        raise exceptions.LeaseTooFarAhead(message, field='start_date')


def check_reservations(number: int, most: int) -> None:
    """Check the number of live reservations of a lease after an addition.

    :raises climate_core.exceptions.BadRequest: it is more than ``most``
    """
    if number > most:
        raise exceptions.BadRequest(
            f'reservations: a lease must have at most {most}; a count of 2 counts as 2.',
            field='reservations',
        )


def _count_user_events(lease: model.Lease) -> int:
    return sum(events.is_user_event(each.event_type) for each in lease.events)


def _format_seconds(seconds: float) -> str:
    """Format seconds for users, as ``1 day, 2:03:04``."""
    return str(datetime.timedelta(seconds=round(seconds)))


def count_added(lease: model.Lease, before: model.Lease | None) -> Amounts:
    """Return what a lease adds to the amounts of its project, by the names of the limits."""
    if before is None:
        return project_limits.sum_amounts(lease.live, leases=1)
    known = {each.id for each in before.reservations}
    new = project_limits.sum_amounts([each for each in lease.live if each.id not in known])
    kept = project_limits.sum_amounts([each for each in lease.live if each.id in known])
    held = project_limits.sum_amounts(before.live)
    return {name: number + max(0, kept[name] - held[name]) for name, number in new.items()}


class ReservationBudget:
    """Count the reservations that a request adds to a lease, and the bytes that it stores then.

    :param most: the maximum number of reservations of a lease
    """

    def __init__(self, lease: model.Lease | None, most: int) -> None:
        present = () if lease is None else lease.reservations
        self._bytes = LEASE_BYTES - _stored_bytes(present)
        self._most, self._count = most, 0 if lease is None else len(lease.live)
        self.is_exceeded = False

    def take(self, new: model.Reservation) -> None:
        """Count a new reservation.

        :raises climate_core.exceptions.BadRequest: the maximum is exceeded
        """
        self._count += 1
        self.is_exceeded = self._count > self._most
        check_reservations(self._count, self._most)
        try:
            self._bytes -= _stored_bytes([new], max(self._bytes, 0))
        except ValueError as exc:
            self.is_exceeded = True
            raise _too_large() from exc


def check_stored_bytes(before: model.Lease, after: model.Lease) -> None:
    """Check the bytes that the reservations of a lease store after a change.

    :raises climate_core.exceptions.BadRequest: they increase, and exceed the maximum
    """
    old = {each.id: each.params for each in before.reservations}
    if all(each.params == old.get(each.id) for each in after.reservations):
        return
    stored = _stored_bytes(after.reservations)
    if stored > LEASE_BYTES and stored > _stored_bytes(before.reservations):
        raise _too_large()


def _stored_bytes(reservations: Iterable[model.Reservation], most: int = sys.maxsize) -> int:
    """Count the bytes of JSON that reservations store.

    :raises ValueError: one of them has more than ``most``
    """
    return sum(len(encode(each.params, most)) for each in reservations)


def _too_large() -> exceptions.BadRequest:
    return exceptions.BadRequest(
        f'reservations: must store at most {LEASE_BYTES} bytes in one lease. Request fewer '
        'of them, with less metadata or fewer block devices, or use several leases.',
        field='reservations',
    )
