# SPDX-License-Identifier: Apache-2.0
"""Compute the wait before the next attempt at something that failed."""

import dataclasses
import email.message
import email.utils
import re
from collections.abc import Mapping

from oslo_config import cfg


@dataclasses.dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds before the second attempt, doubled with each further one, and the most of them."""

    first: float
    most: float

    @classmethod
    def of(cls, conf: cfg.ConfigOpts) -> 'Backoff':
        """Return the backoff of events, from section ``[engine]``."""
        return cls(conf.engine.retry_seconds, conf.engine.retry_max_seconds)

    def delay(self, attempts: int, least: float = 0.0) -> float:
        """Return the seconds to wait after a number of failed attempts.

        :param least: seconds that the other side asked for, see :func:`retry_after`
        """
        return min(self.most, max(least, self.first * 2.0 ** min(attempts, 60)))


def retry_after(headers: Mapping[str, str] | email.message.Message) -> float:
    """Return the seconds in the header ``Retry-After`` of an answer; 0 without a valid one.

    A date counts from the ``Date`` of the answer (RFC 9110, 10.2.3 and 6.6.1).

    :param headers: whatever the case of their names
    """
    after = (headers.get('Retry-After') or '').strip()
    if re.fullmatch('[0-9]{1,9}', after):
        return float(after)
    try:
        date, now = (email.utils.parsedate_to_datetime(each) for each in (after, headers['Date']))
        return max(0.0, (date - now).total_seconds())
    except (KeyError, TypeError, ValueError, OverflowError):
        # OverflowError: the year or the offset has too many digits.
        return 0.0
