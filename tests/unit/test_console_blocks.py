# SPDX-License-Identifier: Apache-2.0
"""The command blocks of the documents follow their rules; ``tests/cloud`` runs them."""

import pathlib
import re

import pytest

from tests.support import console

#: How many blocks may be ``not run``. Lower a number when there are fewer; never raise it.
NOT_RUN = {'user': 1, 'install': 12, 'README': 0}


def written(tmp_path: pathlib.Path, text: str, name: str = 'page.rst') -> pathlib.Path:
    page = tmp_path / name
    page.write_text(text)
    return page


@pytest.mark.parametrize('name', [*console.pages()])
def test_blocks_of_a_page_follow_the_rules(name: str) -> None:
    assert console.parse(console.pages()[name])


@pytest.mark.parametrize('folder', NOT_RUN)
def test_few_blocks_are_not_run(folder: str) -> None:
    reasons = [
        f'{name}:{block.line}: {block.reason}'
        for name, file in console.pages().items()
        if name.split('/')[0] == folder
        for block in console.parse(file)
        if block.reason
    ]
    assert len(reasons) <= NOT_RUN[folder], reasons


def test_commands_output_and_comments_are_parsed(tmp_path: pathlib.Path) -> None:
    page = written(
        tmp_path,
        """
.. run:

   wait_until ACTIVE true

.. file: rules.json

.. code-block:: json

   {"a":
     1}

- In a list:

  .. as: admin

  .. code-block:: console

     $ one --a \\
         --b
     shown
       more

     $ two

.. not run: it reboots
   the machine

.. code-block:: console

   # reboot

.. as: admin

.. finally:

   clean
""",
    )
    hidden, file, admin, skipped, last = console.parse(page)
    assert (hidden.hidden, hidden.commands[0].text.strip()) == (True, 'wait_until ACTIVE true')
    assert (file.file, file.commands[0].text) == ('rules.json', '{"a":\n  1}\n')
    assert admin.user == 'admin'
    assert [command.text for command in admin.commands] == ['one --a \\\n    --b', 'two']
    assert admin.commands[0].output == 'shown\n  more\n\n'
    assert admin.commands[1].line == 24
    assert skipped.reason == 'it reboots the machine'
    assert (last.user, last.hidden, last.last) == ('admin', True, True)


def test_fences_of_markdown_are_parsed(tmp_path: pathlib.Path) -> None:
    page = written(
        tmp_path, '<!-- fails: -->\n```console\n$ false\n```\n\n```python\n$ no\n```\n', 'page.md'
    )
    (block,) = console.parse(page)
    assert (block.fails, block.line, block.commands[0].line) == (True, 2, 3)


@pytest.mark.parametrize(
    ('text', 'error'),
    [
        ('   $ openstack lease show <lease>\n', 'page.rst:3: placeholder in a command: <lease>'),
        ("   $ lease_params='{...}'\n", 'page.rst:3: "..." in a command'),
        ('   openstack lease list\n', 'page.rst:3: a block of commands must start with "$ "'),
        ('   $ one \\\n   two\n', 'page.rst:4: a continued line must be indented'),
    ],
)
def test_broken_rules_are_named(tmp_path: pathlib.Path, text: str, error: str) -> None:
    with pytest.raises(ValueError, match=f'^{re.escape(error)}$'):
        console.parse(written(tmp_path, f'.. code-block:: console\n\n{text}'))


@pytest.mark.parametrize(
    ('text', 'error'),
    [
        ('.. not run:\n\n.. code-block:: console\n\n   $ one\n', 'a reason is missing'),
        ('.. not run: why\n\nText\n', 'no block follows'),
        ('.. fails:\n', 'no block follows'),
        ('.. as: root\n\n.. code-block:: console\n\n   $ one\n', 'must be member or admin'),
    ],
)
def test_wrong_comments_are_named(tmp_path: pathlib.Path, text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        console.parse(written(tmp_path, text))


@pytest.mark.parametrize(
    ('expected', 'got', 'same'),
    [
        ('a ... d', 'a b\nc d', True),
        ('a ... d', 'a b', False),
        ('| id | 1ae8c8b1-fa45-53f7-b512-e59cc752ffef |', '| id   | ' + '0' * 32 + ' |', True),
        ('2082-12-01 09:00:00 UTC', '2030-01-01T10:00 UTC', True),
        ('203.0.113.5', '203.0.113.77', True),
        ('+----+\n| a  |\n+----+', '+------+\n| a    |\n+------+', True),
        ('ACTIVE', 'RESERVED', False),
    ],
)
def test_output_is_compared_without_what_varies(expected: str, got: str, same: bool) -> None:
    assert console.matches(expected, got) is same
