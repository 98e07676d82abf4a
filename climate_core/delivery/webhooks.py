# SPDX-License-Identifier: Apache-2.0
"""Call the webhooks of leases: at least once, signed, and again until they succeed.

The scheme of the signature is that of the Standard Webhooks specification, 1.0; the secret is
used as the user gave it.
"""

import base64
import dataclasses
import datetime
import functools
import hashlib
import hmac
import json
from concurrent import futures

from oslo_config import cfg
from oslo_log import log
from sqlalchemy import orm

from climate_core import test_hooks, webhooks
from climate_core.cloud import Cloud
from climate_core.db import leases, outbox, store
from climate_core.db.engine import DATABASE_ERRORS, Database
from climate_core.db.outbox import DeliveriesInProgress, Delivery
from climate_core.db.sql import Clock
from climate_core.delivery import http_post
from climate_core.lease.history import FAILED, Cause, HistoryEntry
from climate_core.lease.transitions import Change
from climate_core.threads import Backoff, Worker, seconds_left

LOG = log.getLogger(__name__)

#: The action in the history of a lease.
ACTION = 'webhook.failed'
_GONE = 410
_UNREADABLE = (
    '[virtual:instance] secret_keys of climate.conf has no key that opens its URL: the operator '
    'must add it.'
)
#: Seconds between the timeout of a call and the expiry of its claim, for the database.
_CLAIM_MARGIN = 60.0


def sign_body(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the header ``webhook-signature``.

    :param timestamp: seconds since 1970, as in the header ``webhook-timestamp``
    """
    signed = f'{message_id}.{timestamp}.'.encode() + body
    digest = hmac.new(secret.encode(), signed, hashlib.sha256).digest()
    return f'v1,{base64.b64encode(digest).decode()}'


def build_request(delivery: Delivery, now: datetime.datetime) -> tuple[bytes, dict[str, str]]:
    """Build the body, which is the same in each attempt, and the headers of a call."""
    body = json.dumps(
        {
            'type': delivery.event_type,
            'timestamp': delivery.created_at.isoformat().replace('+00:00', 'Z'),
            'data': delivery.payload,
        },
        sort_keys=True,
    ).encode()
    timestamp = int(now.timestamp())
    return body, {
        'content-type': 'application/json',
        'user-agent': 'openstack-climate',
        'webhook-id': delivery.event_id,
        'webhook-timestamp': str(timestamp),
        'webhook-signature': sign_body(delivery.secret, delivery.event_id, timestamp, body),
    }


class WebhookSender(Worker):
    """Submit due deliveries to threads, at most a share of them to one host or project.

    :param rules: the addresses that may be called
    :param cloud: its endpoints are never called
    :raises OSError: ``[webhooks] cafile`` cannot be read
    """

    name = 'webhooks'
    expected_errors = DATABASE_ERRORS
    failure_message = 'Could not read or save deliveries to webhooks; they are retried'

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        database: Database,
        clock: Clock,
        rules: webhooks.WebhookRules,
        cloud: Cloud,
    ) -> None:
        section = conf.webhooks
        super().__init__(conf.engine.idle_seconds)
        self._workers = section.workers
        self._pool = futures.ThreadPoolExecutor(section.workers, thread_name_prefix='webhook')
        self._in_flight: dict[int, Delivery] = {}
        self._database = database
        self._clock = clock
        resolver = http_post.Resolver(section.workers, max(2, section.workers // 4))
        hosts = http_post.CloudHosts(conf, cloud, resolver)
        self._caller = http_post.Caller(
            rules, section.timeout_seconds, resolver, hosts, section.cafile
        )
        self._ttl = section.timeout_seconds + _CLAIM_MARGIN
        self._backoff = Backoff(section.retry_seconds, section.retry_max_seconds)
        self._give_up = datetime.timedelta(hours=section.give_up_hours)
        database.listen(outbox.DELIVERIES_ADDED, self.nudge)

    def poll(self) -> float | None:
        """Start calls while deliveries are due and threads are free."""
        while not self.stopping and (free := self._workers - len(self._in_flight)) > 0:
            batch = self._database.write(outbox.claim_deliveries, self._ttl, free, self._busy())
            for delivery in batch:
                self._submit(delivery)
            if not batch:
                return self._database.read(outbox.seconds_until_delivery, self._busy())
        # The end of a call nudges this worker.
        return None

    def wait(self, deadline: float) -> bool:
        if not super().wait(deadline):
            return False
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._changed:
            return self._changed.wait_for(lambda: not self._in_flight, seconds_left(deadline))

    def _submit(self, delivery: Delivery) -> None:
        with self._changed:
            self._in_flight[delivery.id] = delivery
        future = self._pool.submit(self.deliver, delivery)
        future.add_done_callback(functools.partial(self._finish, delivery))

    def _finish(self, delivery: Delivery, future: futures.Future[None]) -> None:
        failed = None if future.cancelled() else future.exception()
        if failed is not None:
            LOG.error(
                'The call of a webhook of lease %s was interrupted; it is retried when its '
                'claim expires',
                delivery.lease_id,
                exc_info=failed,
            )
        with self._changed:
            del self._in_flight[delivery.id]
            self._changed.notify_all()
        # A thread is free for another call.
        self.nudge()

    def _busy(self) -> DeliveriesInProgress:
        with self._changed:
            return DeliveriesInProgress(max(2, self._workers // 4), self._in_flight.values())

    def deliver(self, delivery: Delivery) -> None:
        """Make one call and save its outcome."""
        info = {'event_type': delivery.event_type, 'lease_id': delivery.lease_id}
        body, headers = build_request(delivery, self._clock.now())
        test_hooks.reached('webhook.before', **info)
        try:
            if not delivery.url:
                raise http_post.CallFailed(_UNREADABLE)
            answer = self._caller.post(delivery.url, body, headers, delivery.project_id)
            reason = _failure_reason(answer.status)
        except http_post.CallFailed as exc:
            answer, reason = http_post.Answer(0, 0.0), str(exc)
        test_hooks.reached('webhook.after', **info)
        if reason is None:
            self._database.write(outbox.delete_delivery, delivery)
        elif answer.status == _GONE:
            self._database.write(_remove_webhook, delivery, self._clock.now())
        else:
            self._reschedule(delivery, reason, answer.retry_after)

    def _reschedule(self, delivery: Delivery, reason: str, least: float) -> None:
        now = self._clock.now()
        left = (delivery.created_at + self._give_up - now).total_seconds()
        taker = f'The webhook of lease {delivery.lease_id}'
        LOG.warning('%s does not accept %s: %s', taker, delivery.event_type, reason)
        if left <= 0:
            self._database.write(_abandon, delivery, reason, now)
        else:
            # The last attempt is at the very end.
            seconds = min(left, self._backoff.delay(delivery.attempts, least))
            self._database.write(outbox.postpone_delivery, delivery, seconds)


def _failure_reason(status: int) -> str | None:
    """Return why the status of an answer is a failure; None if it is a success."""
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return f'It answered {status}, and redirects are not followed.'
    return f'It answered {status}.'


def _abandon(
    session: orm.Session, delivery: Delivery, reason: str, now: datetime.datetime
) -> None:
    message = f'Abandoned the notification {delivery.event_type} after many attempts: {reason}'
    if outbox.delete_delivery(session, delivery):
        entry = HistoryEntry(delivery.lease_id, now, ACTION, FAILED, message, None, None, {})
        store.add_history(session, entry)


def _remove_webhook(session: orm.Session, delivery: Delivery, now: datetime.datetime) -> None:
    """Remove a webhook that answered 410 (Gone) from its lease."""
    lease = leases.find(session, delivery.lease_id, lock=True)
    if lease is None or not outbox.delete_delivery(session, delivery):
        return
    if lease.webhook is None or lease.webhook['url'] != delivery.url:
        return
    why = 'The webhook answered 410: it is not called any more.'
    notices = {'lease.update': why} if lease.deleted_at is None else {}
    change = Change(dataclasses.replace(lease, webhook=None), notices)
    store.save(session, lease, change, now, Cause(ACTION, failure=why))
