# SPDX-License-Identifier: Apache-2.0
"""What every resource plugin must do, whatever it reserves.

Add a :class:`~tests.conformance.world.PluginWorld` for a new plugin to ``conftest.py``; the tests
need no change. One whose reservations the calendar promises on hosts is a row in
``test_lane_plugins.py``.
"""
