# SPDX-License-Identifier: Apache-2.0
"""What the directives share that write reStructuredText from the code."""

from collections.abc import Iterable, Iterator, Sequence

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.util.nodes import nested_parse_with_titles


class Generated(Directive):
    """Write lines of reStructuredText here."""

    def write(self) -> Iterable[str]:
        """Return the lines; they may have sections."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        parent = nodes.section()
        parent.document = self.state.document
        lines = StringList(list(self.write()), source=self.name)
        nested_parse_with_titles(self.state, lines, parent)
        return parent.children


def list_table(title: str, widths: str, rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Write a table; its first row is the header."""
    yield from (
        f'.. list-table:: {title}'.rstrip(),
        '   :header-rows: 1',
        f'   :widths: {widths}',
        '',
    )
    for cells in rows:
        for position, cell in enumerate(cells):
            yield f'   {"* -" if position == 0 else "  -"} {cell}'.rstrip()
    yield ''
