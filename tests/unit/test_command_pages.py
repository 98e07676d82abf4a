# SPDX-License-Identifier: Apache-2.0
"""The pages of commands and programs have each of them once."""

import configparser
import fnmatch
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = ROOT / 'doc' / 'source' / 'cli'


def list_names(group: str) -> list[str]:
    """Return the names of the entry points of a group."""
    setup = configparser.ConfigParser(delimiters=('=',))
    setup.read(ROOT / 'setup.cfg', encoding='utf-8')
    lines = setup['options.entry_points'][group].strip().splitlines()
    return [line.partition('=')[0].strip() for line in lines]


@pytest.mark.parametrize('name', list_names('openstack.climate.v1'))
def test_command_is_on_one_page(name: str) -> None:
    texts = [page.read_text(encoding='utf-8') for page in PAGES.glob('*.rst')]
    patterns = [each for text in texts for each in re.findall(r':command: (.+)', text)]
    command = name.replace('_', ' ')
    assert sum(fnmatch.fnmatch(command, pattern) for pattern in patterns) == 1


@pytest.mark.parametrize('name', ['climate-api', *list_names('console_scripts')])
def test_program_has_a_page_and_a_man_page(name: str) -> None:
    assert (PAGES / f'{name}.rst').exists()
    assert f"'{name}':" in (ROOT / 'doc' / 'source' / 'conf.py').read_text(encoding='utf-8')
