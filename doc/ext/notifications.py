# SPDX-License-Identifier: Apache-2.0
"""The directive ``climate-notifications``: every notification, from the schemas of the code."""

from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.nodes import nested_parse_with_titles

from climate_core.notifications import reference


class Notifications(Directive):
    """Write the tables here."""

    def run(self) -> list[nodes.Node]:
        section = nodes.section()
        section.document = self.state.document
        lines = StringList(reference.rst().splitlines(), source='notifications')
        nested_parse_with_titles(self.state, lines, section)
        return section.children


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive (called by Sphinx)."""
    app.add_directive('climate-notifications', Notifications)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
