# SPDX-License-Identifier: Apache-2.0
"""Feeds of the leases of a project for calendars: ``client.feeds``."""

import builtins
import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from keystoneauth1 import adapter

from climateclient.models import time_of
from climateclient.serialization import read, to_path

_PATH = '/feeds'


@dataclass(frozen=True, slots=True)
class Feed:
    """A feed; only the answer to its creation has ``token`` and ``url``."""

    id: str
    name: str
    project_id: str
    user_id: str
    created_at: datetime.datetime | None = None
    token: str | None = None
    url: str | None = None

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        """Make it from what the service answers."""
        return cls(
            id=body['id'],
            name=body['name'],
            project_id=body['project_id'],
            user_id=body['user_id'],
            created_at=time_of(body['created_at']),
            token=body.get('token'),
            url=body.get('url'),
        )

    def __repr__(self) -> str:
        return f'Feed(id={self.id!r}, name={self.name!r})'


class Feeds:
    """The calls about the own feeds; each raises what :mod:`climateclient.exceptions` says."""

    def __init__(self, http: adapter.Adapter) -> None:
        self._http = http

    def create(self, name: str) -> Feed:
        """Create a feed of the leases of the project; store its URL, which is shown only once.

        :param name: what reads it
        :raises Forbidden: there are as many as there may be, or Keystone lets nothing be delegated
        """
        return read(self._http.post(_PATH, json={'name': name}), 'feed', Feed.from_dict)

    def list(self) -> builtins.list[Feed]:
        """Return the own feeds in the project, the oldest first."""
        return read(
            self._http.get(_PATH), 'feeds', lambda rows: [Feed.from_dict(row) for row in rows]
        )

    def delete(self, feed_id: str) -> None:
        """Delete a feed. Its URL shows nothing from now on.

        :raises NotFound: there is none with this id
        """
        self._http.delete(_PATH + to_path(feed_id))
