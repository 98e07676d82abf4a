# SPDX-License-Identifier: Apache-2.0
"""Read and write the feeds of leases for calendars."""

import dataclasses

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import rows, tables
from climate_core.lease.feeds import Feed

_FEED = tables.FEEDS
_COLUMNS = tuple(_FEED.c[each.name] for each in dataclasses.fields(Feed))


def of_user(session: orm.Session, user_id: str, project_id: str) -> list[Feed]:
    """Return the feeds that a user has in a project, the oldest first."""
    mine = sa.and_(_FEED.c.user_id == user_id, _FEED.c.project_id == project_id)
    query = sa.select(*_COLUMNS).where(mine).order_by(_FEED.c.created_at, _FEED.c.id)
    return [Feed(*row) for row in session.execute(query)]


def find(session: orm.Session, feed_id: str) -> Feed | None:
    """Read a feed; None: it does not exist."""
    row = session.execute(sa.select(*_COLUMNS).where(_FEED.c.id == feed_id)).first()
    return None if row is None else Feed(*row)


def insert(session: orm.Session, feed: Feed, most: int) -> None:
    """Write a new feed.

    :raises climate_core.exceptions.TooManyFeeds: its user has as many as they may have
    """
    check_count(session, feed.user_id, feed.project_id, most)
    rows.insert(session, _FEED, [dataclasses.asdict(feed)])


def check_count(session: orm.Session, user_id: str, project_id: str, most: int) -> None:
    """Check that a user may have another feed in a project.

    :raises climate_core.exceptions.TooManyFeeds: its user has as many as they may have
    """
    if len(of_user(session, user_id, project_id)) >= most:
        raise exceptions.TooManyFeeds(
            f'You have {most} feeds in this project, which is as many as there may be. '
            'Delete one that is not read any more first.'
        )


def delete(session: orm.Session, feed_id: str) -> None:
    """Delete a feed; succeed if it does not exist."""
    rows.change(session, sa.delete(_FEED).where(_FEED.c.id == feed_id))
