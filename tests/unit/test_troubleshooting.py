# SPDX-License-Identifier: Apache-2.0
"""Each message that the pages of troubleshooting and of errors quote exists in the code."""

import ast
import pathlib
import re
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / 'doc/source' / name for name in ('admin/troubleshooting.rst', 'user/errors.rst')]
PACKAGES = ('climate_core', 'climate_hosts', 'climate_networks', 'climate_common')
EXTENSIONS = ('climateclient', 'nova_ext', 'cinder_ext', 'heat_ext')
#: Stands for a value in a string of the code: a field of an f-string, or ``%s``.
VALUE = '\0'


def quoted(page: str) -> list[str]:
    """Return the quoted messages of the first cells of the tables of a page."""
    cells = re.findall(r'^   \* - (.*?)^     - ', page, re.MULTILINE | re.DOTALL)
    text = [' '.join(cell.split()) for cell in cells]
    return [message for cell in text for message in re.findall(r'"(.+?)"(?=[ ,;:.(]|$)', cell)]


def pattern(message: str) -> re.Pattern[str]:
    """Return a pattern of the strings that have a message, with a value for each ``<name>``."""
    parts = re.split(r'(<[^<>]+>|\.\.\.)', message.removesuffix('...').strip())
    return re.compile(
        ''.join(
            '.*' if part == '...' else VALUE if part.startswith('<') else re.escape(part)
            for part in parts
        )
    )


def strings() -> Iterator[str]:
    """Yield each string of the code, and each docstring, in one line."""
    for package in (*PACKAGES, *EXTENSIONS):
        for path in (ROOT / package).rglob('*.py'):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.JoinedStr):
                    values = [
                        v.value if isinstance(v, ast.Constant) else VALUE for v in node.values
                    ]
                    yield ' '.join(''.join(map(str, values)).split())
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield ' '.join(re.sub(r'%\w|%\(\w+\)\w|\{\w*\}', VALUE, node.value).split())


@pytest.fixture(scope='module')
def code() -> str:
    return '\n'.join(strings())


@pytest.mark.parametrize('message', [each for page in PAGES for each in quoted(page.read_text())])
def test_the_code_has_the_message(message: str, code: str) -> None:
    assert pattern(message).search(code)


def test_a_message_that_the_code_does_not_have(code: str) -> None:
    assert not pattern('The server <name> has too many legs.').search(code)
