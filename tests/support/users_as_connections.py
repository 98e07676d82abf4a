# SPDX-License-Identifier: Apache-2.0
"""Let the users of a test stand for connections of the lease service."""

import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock


def stand_for_connections(
    test: unittest.TestCase,
    users: type[Any],
    service_type: str,
    client_of: Callable[[Any], Any],
) -> None:
    """Give users a ``client`` for one service, as climate_core.cloud.connections has it.

    :param client_of: returns what sends requests with the rights of a user
    """

    def client(user: Any, asked: str, _version: str | None) -> Any:
        assert asked == service_type
        return client_of(user)

    # Without known rights no two requests count as equal.
    for name, value in (('client', client), ('rights', None)):
        patch = mock.patch.object(users, name, value, create=True)
        patch.start()
        test.addCleanup(patch.stop)
