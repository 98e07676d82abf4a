# SPDX-License-Identifier: Apache-2.0
"""Show and read amounts of memory and disk with their units: ``64 GiB``, not ``65536``."""

import re
from typing import Final

from django.utils import formats

from climate_common import resource_types

_UNITS: Final = ('MiB', 'GiB', 'TiB', 'PiB')
_STEP: Final = 1024
#: The name of an amount in the API -> the unit in which the API counts it.
_COUNTED_IN: Final = {
    resource_types.MEMORY_MB: 'MiB',
    f'reserved_{resource_types.MEMORY_MB}': 'MiB',
    resource_types.DISK_GB: 'GiB',
    'local_gb': 'GiB',
    resource_types.GIGABYTES: 'GiB',
    f'reserved_{resource_types.GIGABYTES}': 'GiB',
}
_ENTERED: Final = re.compile(
    r'\b(?P<name>\w+)(?P<before>\s*[=!<>]+\s*)(?P<number>\d+)\s*(?P<unit>[MGTP]iB)\b',
    re.IGNORECASE,
)


def show(name: str, number: int | None) -> str:
    """Return an amount for users; ``-`` for None.

    :param name: what is counted, as the API calls it: ``memory_mb``, ``reserved_gigabytes``;
        of what has no unit the number alone is shown
    """
    if number is None:
        return '-'
    unit = _COUNTED_IN.get(name)
    if unit is None or number < 0:
        return str(number)
    value, place = float(number), _UNITS.index(unit)
    while value >= _STEP and place < len(_UNITS) - 1:
        value, place = value / _STEP, place + 1
    # Rounded down: what is free is never less than what is shown.
    tenths = int(value * 10)
    shown = formats.number_format(tenths / 10, 0 if tenths % 10 == 0 else 1)
    return f'{shown} {_UNITS[place]}'


def read_conditions(text: str) -> str:
    """Replace amounts with units by the numbers of the API: ``memory_mb>=64GiB``.

    Amounts that are no whole number in the unit of the API, and those of other properties, stay.
    """

    def replace(found: re.Match[str]) -> str:
        unit = _COUNTED_IN.get(found['name'].lower())
        places = [each.lower() for each in _UNITS]
        higher = places.index(found['unit'].lower()) - _UNITS.index(unit) if unit else -1
        if higher < 0:
            return found[0]
        return f'{found["name"]}{found["before"]}{int(found["number"]) * _STEP**higher}'

    return _ENTERED.sub(replace, text)
