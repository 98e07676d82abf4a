# SPDX-License-Identifier: Apache-2.0
"""Notify the usage of leases, period by period, and sleep until the next period has ended.

The manager that inserts the row of a period in ``usage_periods`` notifies its usage, through the
outbox and in the same transaction. Periods in which no manager ran follow later, in order.
"""

import itertools
import random

from oslo_db import exception as db_exc
from sqlalchemy import orm

from climate_core import notifications as notice
from climate_core.conf import delivery as conf_group
from climate_core.db import outbox
from climate_core.db import usage as db
from climate_core.db.engine import DATABASE_ERRORS, Clock, Database
from climate_core.lease import usage
from climate_core.threads import Worker

#: Number of leases whose usage is added to the outbox in one statement.
_LEASES_PER_TRANSACTION = 500
#: Seconds by which the polls of managers differ at most.
_JITTER = 5.0
_LENGTHS = {conf_group.HOUR: usage.HOUR, conf_group.DAY: usage.DAY}


class UsageReporter(Worker):
    """Notify usage in its own thread.

    :param every: ``hour`` or ``day``
    """

    name = 'usage'
    expected_errors = DATABASE_ERRORS
    failure_message = 'Could not notify the usage of leases; it is retried'

    def __init__(self, database: Database, clock: Clock, every: str) -> None:
        super().__init__(usage.HOUR.total_seconds(), random.uniform(0, _JITTER))  # nosec B311 # spreads load, no secret
        self._database = database
        self._clock = clock
        self._length = _LENGTHS[every]

    def poll(self) -> float:
        seconds = self.report_period()
        return seconds and seconds + random.uniform(0, _JITTER)  # nosec B311 # spreads load, no secret

    def report_period(self) -> float:
        """Notify the usage of the next period if that has ended.

        :returns: seconds until the next period is due; 0 if another one may be due now
        """
        try:
            return self._database.write(self._write_period)
        except db_exc.DBDuplicateEntry:
            return 0.0

    def _write_period(self, session: orm.Session) -> float:
        now = self._clock.now()
        period = usage.next_period(db.reported_until(session), self._length, now)
        early = (period.end + usage.GRACE - now).total_seconds()
        if early > 0:
            return early
        db.mark_reported(session, period)
        uses = itertools.groupby(db.read_uses_by_lease(session, period), lambda use: use.lease_id)
        told = ((notice.USAGE, notice.usage_payload(list(each), period)) for _, each in uses)
        while batch := list(itertools.islice(told, _LEASES_PER_TRANSACTION)):
            outbox.add_notifications(session, batch, now, are_many=True)
        return 0.0
