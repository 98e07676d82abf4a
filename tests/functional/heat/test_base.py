# SPDX-License-Identifier: Apache-2.0
"""The bus of these tests: what goes wrong while heat waits fails the test."""

import pytest

from tests.functional.heat import bus


def test_error_while_heat_waits_fails_the_test():
    found = bus.Bus()
    found.setUp()
    found.meanwhile = {}.popitem
    found._wait(1)
    with pytest.raises(KeyError):
        found.cleanUp()
