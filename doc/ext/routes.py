# SPDX-License-Identifier: Apache-2.0
"""The directive ``climate-routes``: every call of the API, from the code's route table."""

from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.nodes import nested_parse_with_titles

from climate_core.api import reference


class Routes(Directive):
    """Write the reference here, as sections."""

    def run(self) -> list[nodes.Node]:
        section = nodes.section()
        section.document = self.state.document
        lines = reference.rst().splitlines()
        nested_parse_with_titles(self.state, StringList(lines, source='routes'), section)
        return section.children


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive (called by Sphinx)."""
    app.add_directive('climate-routes', Routes)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
