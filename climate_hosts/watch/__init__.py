# SPDX-License-Identifier: Apache-2.0
"""Keep the hosts of the pools in sync with Nova, Placement and the calendar."""

from typing import Final

from climate_core.cloud import errors
from climate_core.db.engine import DATABASE_ERRORS, Stale

#: The errors that end a pass of a worker: the next pass retries.
PASS_ERRORS: Final[tuple[type[Exception], ...]] = (*errors.EXPECTED, *DATABASE_ERRORS, Stale)
