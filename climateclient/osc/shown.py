# SPDX-License-Identifier: Apache-2.0
"""Commands that show what the service stores, and the types of what they return.

All stored texts reach the terminal through :func:`~climate_common.words.escape`: results, errors
and progress.
"""

import argparse
from collections.abc import Iterable
from typing import Any, TextIO

from osc_lib import exceptions
from osc_lib.command import command

from climate_common.words import escape

#: The fields and the values of one object, as cliff's ShowOne takes them.
Shown = tuple[tuple[str, ...], tuple[Any, ...]]
#: The names of columns, and rows, as cliff's Lister takes them.
Rows = tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]


class _Escaped:
    """A stream that writes control characters as their escapes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(escape(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Command:
    """Escape the error of a command: it may repeat what any user stored."""

    def run(self, parsed_args: argparse.Namespace) -> int:
        try:
            code: int = super().run(parsed_args)  # type: ignore[misc]
        except Exception as error:
            text = str(error)
            if text == escape(text):
                raise
            raise exceptions.CommandError(escape(text)) from None
        return code


class Command(_Command, command.Command):
    """Show nothing but errors."""


class _Display(_Command):
    """Escape the output of a command, in every format."""

    app: Any

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        stdout = self.app.stdout
        self.app.stdout = _Escaped(stdout)
        try:
            code: int = super().produce_output(parsed_args, column_names, data)  # type: ignore[misc]
        finally:
            self.app.stdout = stdout
        return code


class ShowOne(_Display, command.ShowOne):
    """Show one object."""


class Lister(_Display, command.Lister):
    """List objects."""
