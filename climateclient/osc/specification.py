# SPDX-License-Identifier: Apache-2.0
"""Options with ``<key>=<value>`` parted by commas, as ``--new-server``: one, one reservation."""

import argparse
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from osc_lib import exceptions


@dataclasses.dataclass(frozen=True)
class Option:
    """An option that specifies a reservation of its type."""

    name: str
    resource_type: str
    example: str
    keys: Sequence[str]
    #: Those of the keys that may be repeated.
    lists: Sequence[str] = ()

    @property
    def dest(self) -> str:
        """Return the attribute of the arguments that has the texts."""
        return self.name.removeprefix('--').replace('-', '_')

    def add(self, parser: argparse.ArgumentParser, help_text: str) -> None:
        """Add the option, which may be repeated."""
        parser.add_argument(
            self.name,
            dest=self.dest,
            metavar=f'{self.example}[,<key>=<value>...]',
            action='append',
            default=[],
            help=help_text,
        )

    def list_types(self, parsed_args: argparse.Namespace) -> list[dict[str, Any]]:
        """Return the type of each of the reservations."""
        return [{'resource_type': self.resource_type}] * len(getattr(parsed_args, self.dest))

    def reservations(
        self,
        parsed_args: argparse.Namespace,
        specify: Callable[[str, str | None], Mapping[str, Any]],
    ) -> list[dict[str, Any]]:
        """Return the reservations of the option.

        :param specify: returns the fields of a reservation from a text and the name of the
            lease, which is None when it is not known
        :raises CommandError: something cannot be read, or is not there
        """
        name = getattr(parsed_args, 'name', None)
        return [
            {'resource_type': self.resource_type, **specify(text, name)}
            for text in getattr(parsed_args, self.dest)
        ]

    def read(self, text: str, needed: Mapping[str, str]) -> dict[str, Any]:
        """Return the value of each key, a list for one that may be repeated.

        :param needed: each key that must be there -> how its value is called
        :raises CommandError: a key is not known, is missing, or is given twice
        """
        given: dict[str, Any] = {}
        for part in text.split(','):
            key, equals, value = (each.strip() for each in part.partition('='))
            if key not in self.keys or not equals or not value:
                known = ', '.join(self.keys)
                raise self.wrong(text, f'"{part}" is not one of {known} with =<value>')
            if key in self.lists:
                given.setdefault(key, []).append(value)
            elif key in given:
                raise self.wrong(text, f'{key} is given twice')
            else:
                given[key] = value
        for key, what in needed.items():
            if key not in given:
                raise self.wrong(text, f'{key}=<{what}> is missing')
        return given

    def find(self, text: str, key: str, name: str, find: Callable[..., Any]) -> str:
        """Return the id of what a key names.

        :raises CommandError: there is none that the user may use
        """
        found = find(name, ignore_missing=True)
        if found is None:
            raise self.wrong(text, f'{key}: there is no {key} "{name}" that you may use')
        return str(found.id)

    def number(self, text: str, key: str, value: str) -> int:
        """Return the number that a key has.

        :raises CommandError: it is none from 1 on
        """
        if not value.isdecimal() or not int(value):
            raise self.wrong(text, f'{key} must be a number from 1 on, not "{value}"')
        return int(value)

    def wrong(self, text: str, why: str) -> exceptions.CommandError:
        """Return the error of a value that cannot be read, with an example."""
        return exceptions.CommandError(
            f'{self.name} {text}: {why}. Example: {self.name} {self.example}'
        )
