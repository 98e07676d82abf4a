# SPDX-License-Identifier: Apache-2.0
"""The directive ``climate-errors``: a table of every error of the API, from the code."""

from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx

from climate_core.api import errors


class Errors(Directive):
    """Write the table here."""

    def run(self) -> list[nodes.Node]:
        lines = ['.. list-table::', '   :header-rows: 1', '   :widths: 6 26 33 35', '']
        rows = [('Status', '``error_name``', 'Cause', 'Cure')]
        rows += [(str(status), f'``{code}``', *text) for status, code, *text in errors.codes()]
        for first, *others in rows:
            lines += [f'   * - {first}', *(f'     - {cell}' for cell in others)]
        table = nodes.container()
        self.state.nested_parse(StringList(lines, source='errors'), 0, table)
        return table.children


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive (called by Sphinx)."""
    app.add_directive('climate-errors', Errors)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
