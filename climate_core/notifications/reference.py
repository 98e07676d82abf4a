# SPDX-License-Identifier: Apache-2.0
"""The reference of the notifications as reStructuredText, from their schemas."""

from collections.abc import Iterator

from climate_core.notifications import schemas, usage
from climate_core.schema_tables import rows, table


def rst() -> str:
    """Describe every type: when it is sent, and its payload."""
    return '\n'.join(_lines()) + '\n'


def _lines() -> Iterator[str]:
    yield from ('.. list-table:: Types', '   :header-rows: 1', '   :widths: 40 60', '')
    yield from ('   * - Event type', '     - Sent when')
    for kind in schemas.KINDS:
        yield from (f'   * - ``{kind.event_type}``', f'     - {kind.sent}')
    yield ''
    common = list(rows(schemas.GIVEN.schema))
    yield from table('Payload of what tells of a lease', 'Field', common)
    for kind in schemas.KINDS:
        own = [row for row in rows(kind.schema) if row not in common]
        title = 'Payload of' if kind.event_type == usage.TYPE else 'Only in'
        yield from table(f'{title} {kind.event_type}', 'Field', own)
