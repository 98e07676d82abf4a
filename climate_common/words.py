# SPDX-License-Identifier: Apache-2.0
"""English for numbers of things."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 host``, ``2 hosts``."""
    return f'{number} {noun}' if number == 1 else f'{number} {noun}s'
