# SPDX-License-Identifier: Apache-2.0
"""Do the same to several, also after a failure with one."""

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from osc_lib import exceptions

from climate_common.words import escape

T = TypeVar('T')


def each(items: Iterable[str], do: Callable[[str], T], log: logging.Logger) -> tuple[list[T], int]:
    """Do something to each item, and log with its name what is refused.

    :returns: what was returned for the others, and how many were refused
    """
    from keystoneauth1.exceptions import ClientException

    results, failed = [], 0
    for item in items:
        try:
            results.append(do(item))
        except (ClientException, exceptions.CommandError) as error:
            failed += 1
            log.error('%s: %s', item, escape(str(error)))
    return results, failed
