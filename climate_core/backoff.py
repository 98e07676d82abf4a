# SPDX-License-Identifier: Apache-2.0
"""Compute the wait before the next attempt at something that failed."""

import dataclasses

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

    def delay(self, attempts: int) -> float:
        """Return the seconds to wait after so many failed attempts."""
        return min(self.most, self.first * 2.0 ** min(attempts, 60))
