# SPDX-License-Identifier: Apache-2.0
"""Repeat a wake_up that cinder-volume could not write down because its database was away.

Cinder abandons a creation whose write fails, and its process goes on. Nothing would ever change
the volume again then: it is ``creating``, and its marker says that a cinder-volume has begun.
"""

import logging
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

import tenacity
from oslo_db import exception

LOG = logging.getLogger(__name__)

P = ParamSpec('P')
T = TypeVar('T')

#: Seconds for which the database may be away.
LONGEST: Final = 600.0
#: Between two tries.
_PAUSE: Final = tenacity.wait_exponential(multiplier=0.2, max=10)


def outlast(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call what may be called again, until the database answers; return what it returns.

    :raises oslo_db.exception.DBConnectionError: the database does not come back in time
    """
    repeated = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(exception.DBConnectionError),
        stop=tenacity.stop_after_delay(LONGEST),
        wait=_PAUSE,
        before_sleep=tenacity.before_sleep_log(LOG, logging.WARNING),
        reraise=True,
    )
    return repeated(call, *args, **kwargs)
