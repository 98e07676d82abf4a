# SPDX-License-Identifier: Apache-2.0
"""Calendar feeds of the leases of a project, and their tokens.

A token is the id of its feed and a secret. The secret is shown once; only its digest is stored. It
is random and long, so that a fast digest is sufficient.
"""

import dataclasses
import datetime
import hashlib
import hmac
import re
import secrets
import uuid
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import sql
from climate_core.db.tables import FEEDS

_BYTES: Final = 32
_TOKEN: Final = re.compile(r'([0-9a-f]{32})([A-Za-z0-9_-]{43})', re.ASCII)
#: The digest of no secret.
_NO_DIGEST: Final = '0' * 64


@dataclasses.dataclass(frozen=True, slots=True)
class Feed:
    """A feed: the leases of a project as its user may see them.

    :param trust_id: the trust that reads the leases
    """

    id: str
    name: str
    project_id: str
    user_id: str
    secret_digest: str
    trust_id: str
    created_at: datetime.datetime


class Token(NamedTuple):
    """The id of a feed and the secret that opens it."""

    feed_id: str
    secret: str

    def __str__(self) -> str:
        return self.feed_id.replace('-', '') + self.secret

    def __repr__(self) -> str:
        return f'Token({self.feed_id!r}, ***)'

    @property
    def digest(self) -> str:
        """Return the stored digest of the secret."""
        return hashlib.sha256(self.secret.encode()).hexdigest()

    def opens(self, feed: Feed | None) -> bool:
        """Return whether it opens a feed, in constant time."""
        stored = _NO_DIGEST if feed is None else feed.secret_digest
        return hmac.compare_digest(self.digest, stored)


def create_token() -> Token:
    """Create the token of a new feed."""
    return Token(str(uuid.uuid4()), secrets.token_urlsafe(_BYTES))


def redact(text: str) -> str:
    """Return a text for the log, with only the ids of its tokens."""
    return _TOKEN.sub(r'\1***', text)


def parse_token(text: str) -> Token | None:
    """Parse a token; None: the text is no token."""
    match = _TOKEN.fullmatch(text)
    return None if match is None else Token(str(uuid.UUID(match[1])), match[2])


_COLUMNS = tuple(FEEDS.c[each.name] for each in dataclasses.fields(Feed))


def of_user(session: orm.Session, user_id: str, project_id: str) -> list[Feed]:
    """Return the feeds that a user has in a project, the oldest first."""
    mine = sa.and_(FEEDS.c.user_id == user_id, FEEDS.c.project_id == project_id)
    query = sa.select(*_COLUMNS).where(mine).order_by(FEEDS.c.created_at, FEEDS.c.id)
    return [Feed(*row) for row in session.execute(query)]


def find(session: orm.Session, feed_id: str) -> Feed | None:
    """Read a feed; None: it does not exist."""
    row = session.execute(sa.select(*_COLUMNS).where(FEEDS.c.id == feed_id)).first()
    return None if row is None else Feed(*row)


def insert(session: orm.Session, feed: Feed, most: int) -> None:
    """Write a new feed.

    :raises climate_core.exceptions.TooManyFeeds: its user has as many as they may have
    """
    check_count(session, feed.user_id, feed.project_id, most)
    sql.insert(session, FEEDS, [dataclasses.asdict(feed)])


def check_count(session: orm.Session, user_id: str, project_id: str, most: int) -> None:
    """Check that a user may have another feed in a project.

    :raises climate_core.exceptions.TooManyFeeds: its user has as many as they may have
    """
    if len(of_user(session, user_id, project_id)) >= most:
        raise exceptions.TooManyFeeds(
            f'You have {most} feeds in this project, which is the maximum. Delete an unused feed '
            'first.'
        )


def delete(session: orm.Session, feed_id: str) -> None:
    """Delete a feed; succeed if it does not exist."""
    sql.change(session, sa.delete(FEEDS).where(FEEDS.c.id == feed_id))
