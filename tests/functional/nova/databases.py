# SPDX-License-Identifier: Apache-2.0
"""The databases of nova and placement, made once and copied for each test.

Nova's fixtures run the statements of the schema for each database of each test, and those of
placement write all traits, too.
"""

from nova.tests import fixtures as nova_fixtures
from placement.tests import fixtures as placement_fixtures

from tests.support import templates


def copy():
    """Have the fixtures copy what they made first."""
    _make_cell = nova_fixtures.CellDatabases._cache_schema
    _make_nova = nova_fixtures.Database._apply_schema
    _make_placement = placement_fixtures.Database.generate_schema_create_all

    def cell(self, connection):
        engine = self._ctxt_mgrs[connection].writer.get_engine()
        _fill('nova main', engine, lambda: _make_cell(self, connection))

    def nova(self):
        _fill(f'nova {self.database}', self.get_engine(), lambda: _make_nova(self))

    def placement(self, engine):
        # In a copy it finds all tables and traits.
        _fill('placement', engine, lambda: _make_placement(self, engine), always=True)

    nova_fixtures.CellDatabases._cache_schema = cell
    nova_fixtures.Database._apply_schema = nova
    placement_fixtures.Database.generate_schema_create_all = placement


def _fill(name, engine, make, always=False):
    # Making an engine tries to connect.
    engine.dispose()
    copied = templates.fill(name, engine.url, make)
    if copied and always:
        make()
