# SPDX-License-Identifier: Apache-2.0
"""The database of Cinder goes away while a cinder-volume creates a reserved volume."""

import fixtures
import sqlalchemy
import tenacity
from cinder.db import api as db
from oslo_db import exception

from cinder_ext import reservation_marker
from tests.functional.cinder.backends import Driver
from tests.functional.cinder.woken import WakeUpTest


class Outage(fixtures.Fixture):
    """In front of the database: refuses statements.

    :ivar left: how many of the next ones are refused
    """

    def _setUp(self):
        self.left = 0
        engine = db.get_engine()
        sqlalchemy.event.listen(engine, 'before_cursor_execute', self._refuse)
        self.addCleanup(sqlalchemy.event.remove, engine, 'before_cursor_execute', self._refuse)

    def _refuse(self, *args):
        if self.left:
            self.left -= 1
            raise exception.DBConnectionError


class TestDatabaseOutage(WakeUpTest):
    def setUp(self):
        super().setUp()
        self.outage = self.useFixture(Outage())
        self._replace('_PAUSE', tenacity.wait_none())
        self.volume = self.reserve(size=3)

    def _replace(self, name, value):
        name = f'cinder_ext.database_outage.{name}'
        self.useFixture(fixtures.MonkeyPatch(name, value))

    def lose_database(self, statements):
        """Let the database go away for so many statements as soon as the volume is made."""
        make = Driver.create_volume

        def make_and_lose(driver, volume):
            make(driver, volume)
            self.outage.left, self.made = (0, True) if self.made else (statements, True)

        self.made = False
        self.useFixture(
            fixtures.MonkeyPatch(f'{Driver.__module__}.Driver.create_volume', make_and_lose)
        )

    def test_volume_whose_creation_could_not_be_written_is_created_anew(self):
        self.lose_database(40)
        self.wake_up(self.volume)
        assert self.outage.left == 0
        self.assert_made(
            self.volume, 'create_volume', 'remove_export', 'delete_volume', 'create_volume'
        )
        assert (self.quota_usage(), self.allocated()) == ((1, 3), 3)

    def test_wake_up_that_comes_while_the_database_is_away_is_not_lost(self):
        self.array.fail['create_volume'] = self.array.fail['delete_volume'] = RuntimeError('busy')
        self.wake_up(self.volume)
        self.assert_status(self.volume, 'error')
        self.array.fail.clear()
        self.bus.kept.add('create_volume')
        self.wake_up(self.volume)
        self.outage.left = 10
        self.bus.deliver()
        assert self.outage.left == 0
        self.assert_status(self.volume, 'available')
        assert self.mark(self.volume) is None

    def test_database_that_stays_away_leaves_the_volume_creating(self):
        self._replace('LONGEST', 0.0)
        self.lose_database(40)
        self.wake_up(self.volume)
        self.outage.left = 0
        self.assert_status(self.volume, 'creating')
        assert self.mark(self.volume).state == reservation_marker.WAKING
        self.wake_up(self.volume, status=409)
