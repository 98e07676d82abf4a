# SPDX-License-Identifier: Apache-2.0
"""Check the names of extra properties that operators give what leases are promised. Pure."""

import re
from collections.abc import Collection, Iterable

from climate_common import limits
from climate_core import exceptions


def check(names: Iterable[str], own: Collection[str], told: str) -> None:
    """Refuse extra properties whose names are no names, or those of something else.

    :param own: the names of something else
    :param told: what these are, for people
    :raises climate_core.exceptions.BadRequest: naming the field
    """
    for name in names:
        if name in own:
            raise exceptions.BadRequest(
                f'{name}: {told}; an extra property must have another name.', field=name
            )
        if not re.fullmatch(limits.PROPERTY_PATTERN, name):
            raise exceptions.BadRequest(
                f'{name}: must begin with a letter and have only letters, digits and "_.:-", 64 '
                'characters at most.',
                field=name,
            )
