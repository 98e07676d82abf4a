# SPDX-License-Identifier: Apache-2.0
"""The relative links of the Markdown documents lead to files and headings that exist."""

import pathlib
import re
from collections.abc import Iterator

import pytest
from docutils import nodes

ROOT = pathlib.Path(__file__).parents[2]
DOCUMENTS = ('README.md', 'SECURITY.md', 'devstack/README.md')


def find_links(document: str) -> Iterator[str]:
    """Return the targets of the links and of the pictures that are no URL."""
    text = (ROOT / document).read_text(encoding='utf-8')
    for target in re.findall(r'\]\(([^)\s]+)\)', re.sub(r'`[^`\n]*`', '', text)):
        if not re.match(r'[a-z]+:', target):
            yield target


def list_anchors(path: pathlib.Path) -> set[str]:
    """Return the ids of the headings, as GitHub and Sphinx write them."""
    text = path.read_text(encoding='utf-8')
    if path.suffix == '.rst':
        titles = re.findall(r'^(\S.*)\n([=\-~^])\2+$', text, re.MULTILINE)
        return {nodes.make_id(title) for title, _ in titles}
    titles = re.findall(r'^#+ (.+)$', text, re.MULTILINE)
    return {re.sub(r'[^\w\- ]', '', title.lower()).replace(' ', '-') for title in titles}


@pytest.mark.parametrize('document', DOCUMENTS)
def test_relative_links(document: str) -> None:
    wrong = []
    for target in find_links(document):
        name, _, anchor = target.partition('#')
        path = (ROOT / document).parent / name if name else ROOT / document
        if not path.exists() or (anchor and anchor not in list_anchors(path)):
            wrong.append(target)
    assert not wrong, f'{document} has links without a target: {wrong}'


def test_readme_links_to_the_documents() -> None:
    assert 'doc/source/install/index.rst' in set(find_links('README.md'))


def test_anchors_of_both_kinds_of_headings() -> None:
    assert 'report-a-vulnerability' in list_anchors(ROOT / 'SECURITY.md')
    assert 'requirements' in list_anchors(ROOT / 'doc/source/install/index.rst')
