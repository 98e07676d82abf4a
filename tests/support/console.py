# SPDX-License-Identifier: Apache-2.0
"""The command blocks of the documents: ``contributor/command-blocks.rst`` has the rules."""

import dataclasses
import doctest
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
SOURCE = ROOT / 'doc' / 'source'
_DIRECTIVE = re.compile(
    r'(?P<indent> *)\.\. (?P<name>run|finally|not run|as|fails|file):(?P<rest>.*)'
)
_BLOCK = re.compile(r'(?P<indent> *)\.\. (?P<name>code-block|literalinclude):: *(?P<rest>.*)')
_FENCE = re.compile(r'(?P<indent> *)```(?P<rest>\w*)$')
_ANY = re.compile(r'^ *(?:\.\. code-block:: |```)console$', re.MULTILINE)
_PROMPTS = ('$ ', '# ')
_VARYING = (
    (r'\b[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b', '<id>'),
    (r'\b[0-9a-f]{8}\b', '<id>'),
    (r'\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)?', '<date>'),
    (r'\b\d{1,3}(?:\.\d{1,3}){3}\b', '<address>'),
    # Borders of tables and padding are as wide as the longest cell.
    (r'[-=]{2,}', '--'),
    (r'\s+', ' '),
)


@dataclasses.dataclass
class Command:
    """A command, what is shown below it, and the line where it stands."""

    line: int
    text: str
    output: str = ''


@dataclasses.dataclass
class Block:
    """A block of commands, or a file that a page shows.

    :param user: ``member`` or ``admin``
    :param last: it runs after the page, also if a block of the page fails
    :param reason: why it is not run
    :param fails: the last command fails
    :param file: the name of the file, whose content is the text of its only command
    """

    line: int
    commands: list[Command]
    user: str = 'member'
    hidden: bool = False
    last: bool = False
    reason: str | None = None
    fails: bool = False
    file: str = ''


def pages() -> dict[str, pathlib.Path]:
    """Return the pages with blocks of commands, by their names as ``user/servers``."""
    files = [*SOURCE.glob('user/**/*.rst'), *SOURCE.glob('install/**/*.rst')]
    named = {str(file.relative_to(SOURCE).with_suffix('')): file for file in sorted(files)}
    named['README'] = ROOT / 'README.md'
    return {name: file for name, file in named.items() if _ANY.search(file.read_text('utf-8'))}


def parse(page: pathlib.Path) -> list[Block]:
    """Return the blocks of a page in their order.

    :raises ValueError: a block breaks a rule; the message has the page and the line
    """
    text = page.read_text(encoding='utf-8')
    return _Parser(page, _as_rest(text) if page.suffix == '.md' else text).blocks()


def matches(expected: str, got: str) -> bool:
    """Return whether an output is what a page shows, where ``...`` stands for anything."""
    return doctest.OutputChecker().check_output(
        _normalized(expected), _normalized(got), doctest.ELLIPSIS
    )


def _normalized(text: str) -> str:
    for pattern, name in _VARYING:
        text = re.sub(pattern, name, text)
    return f'{text.strip()}\n'


def _as_rest(text: str) -> str:
    """Return fences and comments of Markdown as blocks and comments of reST, line by line."""
    lines, inside = [], False
    for line in text.splitlines():
        if fence := _FENCE.fullmatch(line):
            line = f'.. code-block:: {fence["rest"]}' if not inside else ''
            inside = not inside
        elif inside:
            line = f'   {line}'
        elif line.startswith('<!-- '):
            line = f'.. {line[5:].removesuffix("-->").rstrip()}'
        elif line == '-->':
            line = ''
        lines.append(line)
    return '\n'.join(lines)


class _Parser:
    def __init__(self, page: pathlib.Path, text: str) -> None:
        self._page = page
        self._lines = text.splitlines()
        #: What the comments right before a block say about it.
        self._said: dict[str, str] = {}

    def blocks(self) -> list[Block]:
        blocks = []
        number = 0
        while number < len(self._lines):
            line = self._lines[number]
            if found := _DIRECTIVE.fullmatch(line):
                body, end = self._body(number, found['indent'])
                if found['name'] in ('run', 'finally'):
                    blocks.append(self._hidden(number, body, found['name'] == 'finally'))
                else:
                    words = ' '.join([found['rest'], *body]).split()
                    self._said[found['name']] = ' '.join(words)
                number = end
            elif found := _BLOCK.fullmatch(line):
                body, end = self._body(number, found['indent'])
                blocks += self._shown(number, found, body)
                number = end
            else:
                if line.strip() and self._said:
                    raise self._wrong(number, f'no block follows {self._said}')
                number += 1
        return blocks

    def _wrong(self, number: int, what: str) -> ValueError:
        return ValueError(f'{self._page.name}:{number + 1}: {what}')

    def _body(self, number: int, indent: str) -> tuple[list[str], int]:
        """Return the indented lines after a line, without the indent, and where they end."""
        end = number + 1
        while end < len(self._lines) and (
            not self._lines[end].strip() or self._lines[end].startswith(f'{indent} ')
        ):
            end += 1
        body = self._lines[number + 1 : end]
        margin = min((len(ln) - len(ln.lstrip()) for ln in body if ln.strip()), default=0)
        return [line[margin:] for line in body], end

    def _hidden(self, number: int, body: list[str], last: bool) -> Block:
        user = self._said.pop('as', 'member')
        if self._said:
            raise self._wrong(number, f'hidden commands take no {self._said}')
        command = Command(number + 2, '\n'.join(body))
        return Block(number + 1, [command], user, hidden=True, last=last)

    def _shown(self, number: int, found: re.Match[str], body: list[str]) -> list[Block]:
        said, self._said = self._said, {}
        if name := said.pop('file', ''):
            return [Block(number + 1, [self._file(number, found, body)], file=name)]
        if found['rest'] != 'console' or found['name'] != 'code-block':
            if said:
                raise self._wrong(number, f'the block of commands for {said} is another one')
            return []
        block = Block(number + 1, self._commands(number + 1, body))
        block.reason = said.pop('not run', None)
        if block.reason == '':
            raise self._wrong(number, 'not run: a reason is missing')
        block.user = said.pop('as', 'member')
        if block.user not in ('member', 'admin'):
            raise self._wrong(number, f'as: {block.user}: must be member or admin')
        block.fails = said.pop('fails', None) is not None
        return [block]

    def _file(self, number: int, found: re.Match[str], body: list[str]) -> Command:
        if found['name'] == 'literalinclude':
            text = (self._page.parent / found['rest']).read_text(encoding='utf-8')
        else:
            text = '\n'.join(body).strip('\n') + '\n'
        return Command(number + 1, text)

    def _commands(self, first: int, body: list[str]) -> list[Command]:
        commands: list[Command] = []
        continued = False
        for number, line in enumerate(body, first):
            if continued:
                if not line.startswith(' '):
                    raise self._wrong(number, 'a continued line must be indented')
                commands[-1].text += f'\n{line}'
            elif line.startswith(_PROMPTS):
                commands.append(Command(number + 1, line[2:]))
            elif commands:
                commands[-1].output += f'{line}\n'
            elif line.strip():
                raise self._wrong(number, 'a block of commands must start with "$ "')
            continued = (
                bool(commands)
                and commands[-1].text.endswith('\\')
                and (continued or line.startswith(_PROMPTS))
            )
        for command in commands:
            self._check(command)
        return commands

    def _check(self, command: Command) -> None:
        if found := re.search(r'<\w[^<>]*>', command.text):
            raise self._wrong(command.line - 1, f'placeholder in a command: {found[0]}')
        if '...' in command.text:
            raise self._wrong(command.line - 1, '"..." in a command')
