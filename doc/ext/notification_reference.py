# SPDX-License-Identifier: Apache-2.0
"""The directive ``climate-notifications``: every notification, from the schemas of the code."""

from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from schema_tables import rows, table
from sphinx.application import Sphinx
from sphinx.util.nodes import nested_parse_with_titles

from climate_core import notifications
from climate_core.notifications import schemas


class Notifications(Directive):
    """Write the tables here."""

    def run(self) -> list[nodes.Node]:
        section = nodes.section()
        section.document = self.state.document
        lines = StringList(rst().splitlines(), source='notifications')
        nested_parse_with_titles(self.state, lines, section)
        return section.children


def rst() -> str:
    """Describe every type: when it is sent, and its payload."""
    return '\n'.join(_lines()) + '\n'


def _lines() -> Iterator[str]:
    yield from ('.. list-table:: Types', '   :header-rows: 1', '   :widths: 40 60', '')
    yield from ('   * - Event type', '     - Sent when')
    for kind in schemas.list_types():
        yield from (f'   * - ``{kind.event_type}``', f'     - {kind.sent}')
    yield ''
    common = list(rows(schemas.USER_EVENT_TYPE.schema))
    yield from table('Payload of what tells of a lease', 'Field', common)
    for kind in schemas.list_types():
        own = [row for row in rows(kind.schema) if row not in common]
        title = 'Payload of' if kind.event_type == notifications.USAGE else 'Only in'
        yield from table(f'{title} {kind.event_type}', 'Field', own)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive (called by Sphinx)."""
    app.add_directive('climate-notifications', Notifications)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
