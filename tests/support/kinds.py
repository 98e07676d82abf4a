# SPDX-License-Identifier: Apache-2.0
"""The table of the kinds of lease in the documents, and the tests of its cells."""

import pathlib
import re
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar('T')

TESTS = pathlib.Path(__file__).resolve().parents[1]
GUIDE = TESTS.parent / 'doc' / 'source' / 'user' / 'kinds.rst'
_MARK = re.compile(r"@kind_cell\(\s*'(.+?)',\s*'(\w+)'")
_CELL = re.compile(r'^   (\*| ) - (.+)$', re.MULTILINE)


def kind_cell(resource: str, kind: str) -> Callable[[T], T]:
    """Say which cell of the table of kinds a test is of.

    :param resource: the first cell of the row, without what is in brackets
    """
    return lambda test: test


def marked(folder: str = '.') -> set[tuple[str, str]]:
    """Return the cells that the tests in a folder are of."""
    texts = (module.read_text() for module in (TESTS / folder).rglob('test_*.py'))
    return {found for text in texts for found in _MARK.findall(text)}


def cells() -> Iterator[tuple[str, str, str]]:
    """Give the cells of the table: resource, kind, and what is said."""
    text = GUIDE.read_text()
    table = text[text.index('Kinds of each resource:') :].split('\n\n', 3)[2]
    rows: list[list[str]] = []
    for begin, cell in _CELL.findall(table):
        if begin == '*':
            rows.append([])
        rows[-1].append(cell)
    head, *body = rows
    for resource, *said in body:
        name = resource.partition(' (')[0]
        for kind, each in zip(head[1:], said, strict=True):
            yield name, kind.strip('`'), each
