# SPDX-License-Identifier: Apache-2.0
"""Generic fields as properties and attributes of OS::Climate::Lease."""

from heat_ext.lease import attributes
from tests.functional.heat.leased import LeaseTest
from tests.support.generic_fields import FIRST, NONE, ROWS, SECOND


def _shown(lease):
    return {name: getattr(lease, name) for name in ROWS}


class TestGenericFields(LeaseTest):
    def test_template_sets_changes_and_clears_them(self):
        stack = self.make(**FIRST)
        assert _shown(self.leases.lease) == FIRST
        assert _shown(self.change(stack, **SECOND)) == SECOND
        assert _shown(self.change(stack)) == NONE
        assert attributes.SCHEMA.keys() >= ROWS.keys()
