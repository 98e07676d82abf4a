# SPDX-License-Identifier: Apache-2.0
"""Share what the calls have in common about what operators register for leases."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from keystoneauth1 import adapter

from climateclient.serialization import read, read_pages, to_path

T = TypeVar('T')


class Registered(Generic[T]):
    """The calls about what is registered; each raises what :mod:`climateclient.exceptions` says.

    A subclass says where it is, how the service calls one of it, and how one is read.
    """

    path: ClassVar[str]
    noun: ClassVar[str]
    make: Callable[[Mapping[str, Any]], T]

    def __init__(self, http: adapter.Adapter) -> None:
        self._http = http

    def get(self, one: str) -> T:
        """Return one by its id.

        :raises NotFound: there is none
        """
        return read(self._http.get(self.path + to_path(one)), self.noun, self.make)

    def delete(self, one: str) -> None:
        """Take one away from those for leases; nothing changes in Neutron.

        :raises NotFound: there is none
        :raises Conflict: it is allocated to reservations
        """
        self._http.delete(self.path + to_path(one))

    def _create(self, body: Mapping[str, Any]) -> T:
        return read(self._http.post(self.path, json=body), self.noun, self.make)

    def _create_many(self, body: Mapping[str, Any]) -> list[T]:
        return read(
            self._http.post(self.path, json=body),
            f'{self.noun}s',
            lambda rows: [self.make(row) for row in rows],
        )

    def _list(self, values: Mapping[str, Any], limit: int | None) -> Iterator[T]:
        """Yield all that match, up to a limit, over all pages of the service."""
        return read_pages(self._http, self.path, f'{self.noun}s', self.make, values, limit)
