# SPDX-License-Identifier: Apache-2.0
"""English for numbers of things, and for several of them."""

from collections.abc import Sequence


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 host``, ``2 hosts``."""
    return f'{number} {noun}' if number == 1 else f'{number} {noun}s'


def listed(names: Sequence[str]) -> str:
    """Return names in one phrase: ``a``, ``a and b``, ``a, b and c``."""
    *first, last = names
    return f'{", ".join(first)} and {last}' if first else last
