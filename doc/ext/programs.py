# SPDX-License-Identifier: Apache-2.0
"""The directive ``climate-program`` (the options of a program, from its parser), and man pages."""

import argparse
import importlib.metadata
from collections.abc import Iterator
from typing import Any
from unittest import mock

from cliff import sphinxext
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from oslo_config import cfg
from oslo_log import log
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

#: Options that are described first, although every program of OpenStack has them.
_FIRST = {'--config-file', '--config-dir', '-h', '--help'}
#: Stands for the commands, which have a section each.
_COMMAND = argparse.Action([], 'command', metavar='<command>', help='one of the commands below')


class _Parsed(Exception):
    """Ends a program that would parse its command line."""


def read_parser(program: str) -> argparse.ArgumentParser:
    """Return the parser of a console script."""
    [script] = importlib.metadata.entry_points(group='console_scripts', name=program)
    return _capture(script.load(), program)


def _capture(main: Any, program: str) -> argparse.ArgumentParser:
    parsers = []

    def parse_args(self: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        parsers.append(self)
        raise _Parsed

    with (
        mock.patch('sys.argv', [program]),
        mock.patch.object(argparse.ArgumentParser, 'parse_args', parse_args),
    ):
        try:
            main([])
        except _Parsed:
            return parsers[0]
    raise ValueError(f'{program} parses no command line')


class Program(Directive):
    """Write the commands and options of a program here."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        program = self.arguments[0]
        parser = read_parser(program)
        conf = cfg.ConfigOpts()
        log.register_options(conf)
        common = {
            option
            for action in _capture(conf, program)._actions
            for option in action.option_strings
        } - _FIRST
        logging = [action for action in parser._actions if common & {*action.option_strings}]
        others = [action for action in parser._actions if action not in logging]
        parent = nodes.container()
        self._parse(_format(parser, others), parent)
        for command, text in _list_commands(parser):
            command.description = command.description or _sentence(text)
            self._add_section(parent, command.prog, _format(command, command._actions))
        if logging:
            self._add_section(parent, 'Logging options', _format(parser, logging, usage=False))
        return parent.children

    def _add_section(self, parent: nodes.Element, title: str, lines: Iterator[str]) -> None:
        section = nodes.section(
            '',
            nodes.title(text=title),
            ids=[nodes.make_id(title)],
            names=[nodes.fully_normalize_name(title)],
        )
        self._parse(lines, section)
        parent += section

    def _parse(self, lines: Iterator[str], parent: nodes.Element) -> None:
        self.state.nested_parse(StringList(list(lines), source='program'), 0, parent)


class PlainLinks(SphinxPostTransform):
    """Leave the text of internal links in man pages: docutils adds brackets without a URL."""

    # After all that resolve links.
    default_priority = 900
    formats = ('man',)

    def run(self) -> None:
        for link in list(self.document.findall(nodes.reference)):
            if link.get('internal'):
                link.replace_self(link.children)


def _list_commands(
    parser: argparse.ArgumentParser,
) -> Iterator[tuple[argparse.ArgumentParser, str | None]]:
    """Yield the commands without further commands, with their help."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            texts = {choice.dest: choice.help for choice in action._choices_actions}
            for name, command in action.choices.items():
                deeper = list(_list_commands(command))
                yield from deeper or [(command, texts.get(name))]


def _format(
    parser: argparse.ArgumentParser, actions: list[argparse.Action], usage: bool = True
) -> Iterator[str]:
    """Format these options and arguments of a parser as restructured text."""
    actions = [
        _COMMAND if isinstance(action, argparse._SubParsersAction) else action
        for action in actions
        if not isinstance(action, argparse._HelpAction)
    ]
    formatter = parser._get_formatter()
    for action in actions:
        if action.help and action.help is not argparse.SUPPRESS:
            text = _sentence(' '.join(formatter._expand_help(action).split()))
            action.help = text.replace('*', r'\*').replace('`', r'\`')
    with mock.patch.object(parser, '_actions', actions):
        lines = list(sphinxext._format_parser(parser))
    yield from lines if usage else [f'.. program:: {parser.prog}', '', *lines[_end(lines) :]]


def _end(lines: list[str]) -> int:
    return next(n for n, line in enumerate(lines) if line.startswith('.. option::'))


def _sentence(text: str | None) -> str:
    if not text:
        return ''
    text = text[0].upper() + text[1:]
    return text if text.endswith(('.', ')')) else f'{text}.'


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive (called by Sphinx)."""
    app.add_directive('climate-program', Program)
    app.add_post_transform(PlainLinks)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
