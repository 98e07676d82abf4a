# SPDX-License-Identifier: Apache-2.0
"""Stop parts of a service."""

import time

from climate_core import threads


def stop(*parts: threads.Background, seconds: float = 60.0) -> bool:
    """Stop them in order; tell whether all ended in time."""
    return not threads.stop(parts, time.monotonic() + seconds)
