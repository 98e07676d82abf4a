# SPDX-License-Identifier: Apache-2.0
"""Create, check and delete feeds of leases.

A feed is read without a token of Keystone, perhaps for years, so it must not outlive the rights of
its user. It has a dedicated trust from that user, of the role ``reader`` alone if the user has it.
Climate requests the roles of that trust from Keystone at each read; Keystone rejects it when the
user is disabled or deleted, or has lost the role in the project. The policy is enforced on these
roles as on those of any request.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import log

from climate_core import exceptions, policies
from climate_core.cloud import errors
from climate_core.cloud.trusts import Trusts
from climate_core.context import RequestContext
from climate_core.db import feeds, sql
from climate_core.db.engine import Database
from climate_core.operations.remote import remote

LOG = log.getLogger(__name__)


@dataclasses.dataclass
class FeedOperations:
    """The operations of users on feeds."""

    conf: cfg.ConfigOpts
    database: Database
    trusts: Trusts

    @remote(policies.CREATE_FEED)
    def create_feed(self, context: RequestContext, values: Mapping[str, Any]) -> str:
        """Create a feed of the leases of the user's project; return its unstored token.

        :param values: ``name``
        :raises climate_core.exceptions.Forbidden: Keystone does not let this user delegate
        :raises climate_core.exceptions.TooManyFeeds: the user has as many as they may have
        :raises climate_core.exceptions.ServiceUnavailable: Keystone does not answer
        """
        most = self.conf.limits.feeds_per_user
        user_id, project_id = str(context.user_id), str(context.project_id)
        # Before a trust is created; the transaction checks it again.
        self.database.read(feeds.check_count, user_id, project_id, most)
        token = feeds.create_token()
        roles = ['reader'] if 'reader' in context.roles else None
        trust_id = self.trusts.create(context, roles)
        feed = feeds.Feed(
            id=token.feed_id,
            name=values['name'],
            project_id=project_id,
            user_id=user_id,
            secret_digest=token.digest,
            trust_id=trust_id,
            created_at=self.database.read(sql.read_time),
        )
        try:
            self.database.write(feeds.insert, feed, most)
        except Exception:
            self._release(trust_id)
            raise
        return str(token)

    @remote()
    def feed_roles(self, context: RequestContext, feed_id: str) -> Sequence[str]:
        """Return the roles that the user of a feed still has in its project; none: no more.

        :raises climate_core.exceptions.ServiceUnavailable: Keystone does not answer
        """
        feed = self.database.read(feeds.find, feed_id)
        if feed is None or feed.user_id != context.user_id:
            return []
        with errors.require_services():
            try:
                return list(self.trusts.roles(feed.trust_id))
            except errors.TrustRejected:
                return []

    @remote()
    def delete_feed(self, context: RequestContext, feed_id: str) -> None:
        """Delete a feed and so its token; a missing feed is no error.

        :raises climate_core.exceptions.FeedNotFound: the policy did not allow this on the feed
        """
        feed = self.database.read(feeds.find, feed_id)
        if feed is not None:
            if not context.may(policies.DELETE_FEED, feed.project_id):
                raise exceptions.FeedNotFound(f'Feed {feed_id} was not found.')
            self.database.write(feeds.delete, feed_id)
            self._release(feed.trust_id)

    def _release(self, trust_id: str) -> None:
        """Delete a trust that no feed has; ``climate-manage repair`` finds leftover trusts."""
        try:
            self.trusts.delete(trust_id)
        except errors.EXPECTED as exc:
            LOG.warning('Could not delete the trust %s, which no feed has: %s', trust_id, exc)
