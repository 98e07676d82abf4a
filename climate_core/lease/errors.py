# SPDX-License-Identifier: Apache-2.0
"""Raise the first error of a request, or, in a dry run, collect all of them. Pure."""

import contextlib
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from climate_core import exceptions

P = ParamSpec('P')
T = TypeVar('T')
D = TypeVar('D')


class ErrorCollector:
    """Collect the errors of a request in :attr:`found`.

    Errors that are not about the request are raised in any case: a service that does not respond,
    or rejects the token.
    """

    def __init__(self) -> None:
        self.found: list[exceptions.ClimateError] = []

    def add(self, error: exceptions.ClimateError) -> None:
        """Collect an error."""
        if error.status >= 500 or error.status == 401:
            raise error
        self.found.append(error)

    @contextlib.contextmanager
    def collected(self) -> Iterator[None]:
        """Collect the error that the block raises, if any."""
        try:
            yield
        except exceptions.ClimateError as exc:
            self.add(exc)

    def get(self, default: D, function: Callable[P, T], *args: P.args, **kw: P.kwargs) -> T | D:
        """Return the result of the function, or the default if it raises an error."""
        with self.collected():
            return function(*args, **kw)
        return default


class _RaiseFirst(ErrorCollector):
    def add(self, error: exceptions.ClimateError) -> None:
        raise error


RAISE_FIRST = _RaiseFirst()


@contextlib.contextmanager
def prefix_field(field: str) -> Iterator[None]:
    """Prefix the field of an error in the block with its place, as ``reservations[2]``."""
    try:
        yield
    except exceptions.ClimateError as exc:
        if field and exc.field is not None:
            whole, part = f'{field}.{exc.field}', f'{exc.field}: '
            if exc.message.startswith(part):
                # The sentence names the field as the answer does.
                exc.args = (f'{whole}: {exc.message.removeprefix(part)}', *exc.args[1:])
            exc.field = whole
        raise
