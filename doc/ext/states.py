# SPDX-License-Identifier: Apache-2.0
"""The directive ``climate-states``: a state table of the code, drawn.

``.. climate-states:: lease`` (or ``reservation``, ``event``) draws the table of
``climate_core.lease.states``, so that the picture cannot differ from the code.
"""

from collections.abc import Sequence
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from sphinx.ext.graphviz import graphviz

from climate_core.lease import states

TABLES = {'lease': states.LEASE, 'reservation': states.RESERVATION, 'event': states.EVENT}


def draw(table: Sequence[states.Move], name: str) -> str:
    """Return a table as a digraph of Graphviz."""
    lines = [f'    "{m.source}" -> "{m.target}" [label="{m.cause}"];' for m in table]
    return '\n'.join([f'digraph {name} {{', *lines, '}', ''])


class States(Directive):
    """Draw one table."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        if name not in TABLES:
            raise self.error(f'no state table {name!r}; one of {", ".join(TABLES)}')
        picture = graphviz()
        picture['code'] = draw(TABLES[name], name)
        picture['options'] = {}
        picture['alt'] = f'States: {name}'
        return [picture]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive (called by Sphinx)."""
    app.setup_extension('sphinx.ext.graphviz')
    app.config.graphviz_output_format = 'svg'  # type: ignore[attr-defined]
    app.add_directive('climate-states', States)
    return {'parallel_read_safe': True}
