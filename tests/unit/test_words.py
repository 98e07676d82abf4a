# SPDX-License-Identifier: Apache-2.0
"""Help, errors, log lines, docstrings and documents use the words of OpenStack."""

import ast
import pathlib
import re
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PACKAGES = (
    'cinder_ext',
    'climate_common',
    'climate_core',
    'climate_dashboard',
    'climate_hosts',
    'climate_networks',
    'climateclient',
    'heat_ext',
    'nova_ext',
)
#: Phrases that no text needs -> what to write instead.
PHRASES = {
    r'(is|are|was|were) told': 'is notified, is reported',
    r'gives? way|gave way|giving way': 'is preempted',
    r'(made|built|written) anew': 'recreated',
    r'looked at': 'checked',
    r'on (its|their) way': 'in progress',
    r'so many': 'the number of',
    r'at the most': 'at most',
    r'whoever': 'the user, the caller',
    r'nobody': 'no user, no project',
    r'mistake in the program': 'unexpected error',
    r'sees to it': 'ensures',
    r'has trouble': 'fails',
    r'(is|are|was|were|be|been) promised|promises': 'is allocated; allocations',
    r'everybody': 'all users, all projects',
    r'so long': 'the duration',
    r'set apart': 'registered for leases',
    r'(taken?|takes) away': 'removed',
    r'meanwhile': 'concurrently',
    r'g[ia]ves? up': 'abandons, times out',
    r'is blamed': 'is the invalid field',
    r'beaten': 'lost the claim',
    r'catalogue': 'catalog',
}
FORBIDDEN = re.compile(
    '|'.join(rf'\b(?:{phrase})\b' for phrase in PHRASES).replace(' ', r'\s+'), re.IGNORECASE
)


def _read_strings(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    """Return the texts of a module with their lines; an f-string is one text."""
    parts: set[ast.AST] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
        if isinstance(node, ast.JoinedStr):
            parts.update(node.values)
            constants = [part for part in node.values if isinstance(part, ast.Constant)]
            yield node.lineno, '{}'.join(str(part.value) for part in constants)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts:
            yield node.lineno, node.value


def _find(texts: Iterator[tuple[int, str]]) -> Iterator[str]:
    for line, text in texts:
        for found in FORBIDDEN.finditer(text):
            yield f'{line + text.count(chr(10), 0, found.start())}: {found.group()}'


@pytest.mark.parametrize('package', PACKAGES)
def test_texts_of_a_package(package: str) -> None:
    wrong = [
        f'{path.relative_to(ROOT)}:{place}'
        for path in sorted((ROOT / package).rglob('*.py'))
        for place in _find(_read_strings(path))
    ]
    assert not wrong, f'{PHRASES}\n' + '\n'.join(wrong)


def test_documents() -> None:
    documents = [*ROOT.glob('*.md'), ROOT / 'devstack' / 'README.md']
    documents += (ROOT / 'doc' / 'source').rglob('*.rst')
    documents += (ROOT / 'releasenotes').rglob('*.yaml')
    wrong = [
        f'{path.relative_to(ROOT)}:{place}'
        for path in sorted(documents)
        for place in _find(iter([(1, path.read_text(encoding='utf-8'))]))
    ]
    assert not wrong, f'{PHRASES}\n' + '\n'.join(wrong)
