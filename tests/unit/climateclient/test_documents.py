# SPDX-License-Identifier: Apache-2.0
"""The commands of the documents are understood as they are written there."""

import pathlib
import re
import shlex
from collections.abc import Iterator
from importlib import metadata

import pytest

from climateclient.osc import hosts

ROOT = pathlib.Path(__file__).parents[3]
FILES = sorted({*ROOT.glob('doc/source/**/*.rst'), ROOT / 'README.md'})
COMMANDS = {
    tuple(each.name.split('_')): each
    for each in metadata.entry_points(group='openstack.climate.v1')
}


def found() -> Iterator[tuple[str, str]]:
    """Yield where a command stands, and the command without the prompt."""
    for file in FILES:
        text = re.sub(r'\\\n\s*', '', file.read_text())
        for line in re.findall(r'^\s+(?:\$ )?(openstack lease .*)$', text, re.MULTILINE):
            for part in re.sub(r'<[^<>]+>|\$\([^()]*\)', 'x', line).split(';'):
                if part.strip().startswith('openstack lease ') and '...' not in part:
                    yield f'{file.stem}: {part.strip()}', part


@pytest.mark.parametrize('text', [pytest.param(text, id=name) for name, text in found()])
def test_command_of_a_document_is_understood(text: str) -> None:
    words = shlex.split(text.partition(' | ')[0], comments=True)[1:]
    name = next(
        tuple(words[:size])
        for size in range(len(words), 0, -1)
        if tuple('_'.join(words[:size]).split('_')) in COMMANDS
    )
    parser = COMMANDS[name].load()(None, None).get_parser('openstack')
    given = parser.parse_args(words[len(name) :])
    given.capacity = [each for each in getattr(given, 'capacity', ()) if 'flavor=' not in each]
    if hasattr(given, 'hosts'):
        assert len(hosts.reservations(None, given)) == len(given.hosts) + len(given.capacity)
