# SPDX-License-Identifier: Apache-2.0
"""English for numbers of things, and for several of them; texts of users for terminals."""

import re
from collections.abc import Sequence
from typing import Final

from climate_common import limits

#: Line ends and tabs are part of tables.
_CONTROL: Final = re.compile(rf'(?![\n\t])[{limits.CONTROL}]')


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 host``, ``2 hosts``."""
    return f'{number} {noun}' if number == 1 else f'{number} {noun}s'


def listed(names: Sequence[str]) -> str:
    """Return names in one phrase: ``a``, ``a and b``, ``a, b and c``."""
    *first, last = names
    return f'{", ".join(first)} and {last}' if first else last


def escape(text: str) -> str:
    r"""Return a text with control characters as ``\x9b``: any user may have stored them."""
    return _CONTROL.sub(lambda found: found[0].encode('unicode_escape').decode(), text)
