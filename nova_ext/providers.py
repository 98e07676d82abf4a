# SPDX-License-Identifier: Apache-2.0
"""Ask Placement whether there are lanes, by the client that nova has for it."""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from keystoneauth1 import exceptions as ks_exceptions
from nova.scheduler.client import report

LOG = logging.getLogger(__name__)

#: As nova asks for providers (nova/scheduler/client/report.py, _get_sharing_providers).
_MICROVERSION = '1.18'


def exist(context: Any, members: Iterable[str]) -> bool | None:
    """Return whether a provider is in one of these aggregates.

    :returns: None if Placement does not say
    """
    url = f'/resource_providers?member_of=in:{",".join(members)}'
    try:
        client = report.report_client_singleton()
        answer = client.get(url, version=_MICROVERSION, global_request_id=context.global_id)
    except ks_exceptions.ClientException as error:
        LOG.warning('Placement cannot be asked for lanes: %s', error)
        return None
    return bool(answer.json()['resource_providers']) if answer.status_code == 200 else None


class Recent:
    """The answers of :func:`exist`, each of which may be some seconds old.

    :param seconds: how long an answer is used
    :param clock: a monotonic clock, in seconds
    :param limit: how many answers are kept
    """

    def __init__(
        self, seconds: float, clock: Callable[[], float] = time.monotonic, limit: int = 10000
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._limit = limit
        self._answers: dict[tuple[str, ...], tuple[float, bool]] = {}

    def exist(self, context: Any, members: Iterable[str]) -> bool:
        """Return whether a provider is, or was a short time ago, in one of these aggregates."""
        key = tuple(members)
        until, answer = self._answers.get(key, (0.0, False))
        now = self._clock()
        if until > now:
            return answer
        answer = bool(exist(context, key))
        if len(self._answers) >= self._limit:
            self._answers = {}
        self._answers[key] = (now + self._seconds, answer)
        return answer
