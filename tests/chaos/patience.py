# SPDX-License-Identifier: Apache-2.0
"""Ask a cloud whose processes are killed."""

from collections.abc import Callable
from typing import Any

from keystoneauth1 import exceptions as keystone
from openstack import exceptions as sdk

from climateclient import exceptions
from tests.cloud.people import wait_for

#: Answers of a service that has lost its database, its message bus or a process.
OUTAGES = (
    keystone.ConnectionError,
    keystone.HttpServerError,
    exceptions.ServerError,
    exceptions.ServiceUnavailable,
    exceptions.UnexpectedAnswer,
)


def ask(call: Callable[[], Any]) -> Any:
    """Call until the services that it needs answer; return what it returns."""

    def attempt() -> tuple[Any] | None:
        try:
            return (call(),)
        except OUTAGES:
            return None
        except sdk.HttpException as exc:
            if (exc.status_code or 500) < 500:
                raise
            return None

    return wait_for(attempt, 'an answer of the cloud', 120)[0]
