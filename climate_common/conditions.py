# SPDX-License-Identifier: Apache-2.0
"""Conditions on hosts, as ``vcpus>=16``: the one grammar of the API and the commands. Pure."""

import re
from typing import Final, NamedTuple

#: The longer ones first, so that ``>=`` is not read as ``>``.
OPERATORS: Final = ('==', '!=', '>=', '<=', '=', '>', '<')
#: Linear in the length of the text: no two adjacent repetitions match the same characters.
_CONDITION: Final = re.compile(rf'([^\s<>=!]+)\s*({"|".join(OPERATORS)})\s*((?![<>=]|!=)\S.*)')


class Condition(NamedTuple):
    """One comparison of a property of a host with a value.

    :param operator: one of :data:`OPERATORS`
    """

    name: str
    operator: str
    value: str


def parse(text: str) -> Condition | None:
    """Read one condition; None if the text is none."""
    found = _CONDITION.fullmatch(text.strip())
    return Condition(*found.groups()) if found else None
