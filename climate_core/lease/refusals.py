# SPDX-License-Identifier: Apache-2.0
"""Where the refusals of a request go: up at once, or, in a dry run, into a list. Pure.

What asks is written once, for both: every check that can be made without the one before it stands
in a block of its own.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from climate_core import exceptions

P = ParamSpec('P')
T = TypeVar('T')
D = TypeVar('D')


class Refusals:
    """A taker of refusals.

    What says nothing about the request, that a service does not answer or does not accept the
    token, is raised in any case.

    :param collect: collect them in :attr:`found`; otherwise the first one is raised
    """

    def __init__(self, collect: bool = False) -> None:
        self._collect = collect
        self.found: list[exceptions.ClimateError] = []

    def add(self, error: exceptions.ClimateError) -> None:
        """Take a refusal."""
        if not self._collect or error.status >= 500 or error.status == 401:
            raise error
        self.found.append(error)

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Take the refusal that comes out of the block, if one does."""
        try:
            yield
        except exceptions.ClimateError as exc:
            self.add(exc)

    def get(self, default: D, function: Callable[P, T], *args: P.args, **kw: P.kwargs) -> T | D:
        """Return what the function gives, or the default if it refuses."""
        with self.noted():
            return function(*args, **kw)
        return default


#: Raises the first one.
AT_ONCE = Refusals()
