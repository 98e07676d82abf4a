# SPDX-License-Identifier: Apache-2.0
"""Calls the webhooks of leases: at least once, signed, again until they answer with success.

The scheme of the signature is that of the Standard Webhooks specification, 1.0; the secret is
used as the user gave it.
"""

import base64
import dataclasses
import datetime
import hashlib
import hmac
import json
import threading
from collections.abc import Callable
from concurrent import futures

from oslo_config import cfg
from oslo_log import log
from sqlalchemy import orm

from climate_core import test_points
from climate_core.db import deliveries, history, leases, store
from climate_core.db.clock import Clock
from climate_core.db.deliveries import Busy, Delivery
from climate_core.db.engine import TROUBLE, Database
from climate_core.delivery import http_post
from climate_core.engine import retry
from climate_core.lease import webhook
from climate_core.lease.history import FAILED, Cause, Entry
from climate_core.lease.results import Change
from climate_core.threads import Worker

LOG = log.getLogger(__name__)

#: The action in the history of a lease.
ACTION = 'webhook.failed'
_GONE = 410
#: Seconds that a claim lives longer than a call: for the resolving of a name, for the database.
_MARGIN = 60.0


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the header ``webhook-signature``.

    :param timestamp: seconds since 1970, as in the header ``webhook-timestamp``
    """
    signed = f'{message_id}.{timestamp}.'.encode() + body
    digest = hmac.new(secret.encode(), signed, hashlib.sha256).digest()
    return f'v1,{base64.b64encode(digest).decode()}'


def message(delivery: Delivery, now: datetime.datetime) -> tuple[bytes, dict[str, str]]:
    """Write what is sent: the body, which is the same each time, and the headers."""
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
        'webhook-signature': sign(delivery.secret, delivery.event_id, timestamp, body),
    }


class Sender:
    """Hands what is to be sent to threads, never more than a share to one host or project.

    :param rules: which addresses may be called
    :param post: makes one call, see :meth:`climate_core.delivery.http_post.Caller.post`
    :raises OSError: ``[webhooks] cafile`` cannot be read
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        database: Database,
        clock: Clock,
        rules: webhook.Rules,
        post: Callable[[str, bytes, dict[str, str]], int] | None = None,
    ) -> None:
        section = conf.webhooks
        self._database = database
        self._clock = clock
        caller = http_post.Caller(rules, section.timeout_seconds, section.cafile)
        self._post = post or caller.post
        self._workers = section.workers
        self._ttl = section.timeout_seconds + _MARGIN
        self._backoff = retry.Backoff(section.retry_seconds, section.retry_max_seconds)
        self._give_up = datetime.timedelta(hours=section.give_up_hours)
        self._pool = futures.ThreadPoolExecutor(section.workers, thread_name_prefix='webhook')
        self._changed = threading.Condition()
        self._in_flight: dict[int, Delivery] = {}
        self._worker = Worker(
            'webhooks',
            self._look,
            conf.engine.idle_seconds,
            TROUBLE,
            'Webhooks cannot be called now; what they are told is kept',
        )
        database.listen(deliveries.ADDED, self._worker.nudge)

    def start(self) -> None:
        self._worker.start()

    def nudge(self) -> None:
        """Have it look at what is to be sent now."""
        self._worker.nudge()

    def stop(self, grace: float = 0.0) -> bool:
        """Begin no more calls and let those in progress go on for ``grace`` seconds.

        :returns: whether all were finished; if not, the claims expire
        """
        self._worker.stop()
        self._worker.join()
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._changed:
            return self._changed.wait_for(lambda: not self._in_flight, timeout=grace)

    def _busy(self) -> Busy:
        with self._changed:
            return Busy(max(2, self._workers // 4), self._in_flight.values())

    def _look(self) -> float | None:
        """Begin calls while there are some to make and there is room for them."""
        while not self._worker.stopping:
            room = self._workers - len(self._in_flight)
            if room <= 0:
                # The end of a call nudges.
                return None
            batch = self._database.write(deliveries.claim, self._ttl, room, self._busy())
            for delivery in batch:
                self._submit(delivery)
            if not batch:
                return self._database.read(deliveries.due_in, self._busy())
        return None

    def _submit(self, delivery: Delivery) -> None:
        with self._changed:
            self._in_flight[delivery.id] = delivery
        future = self._pool.submit(self.deliver, delivery)
        future.add_done_callback(lambda done: self._finished(delivery, done))

    def _finished(self, delivery: Delivery, future: futures.Future[None]) -> None:
        failed = not future.cancelled() and future.exception()
        if failed:
            LOG.error(
                'The call of a webhook of lease %s was interrupted; it is made again when its '
                'claim expires',
                delivery.lease_id,
                exc_info=failed,
            )
        with self._changed:
            del self._in_flight[delivery.id]
            self._changed.notify_all()
        self.nudge()

    def deliver(self, delivery: Delivery) -> None:
        """Make one call and write down what came of it."""
        info = {'event_type': delivery.event_type, 'lease_id': delivery.lease_id}
        body, headers = message(delivery, self._clock.now())
        test_points.reached('webhook.before', **info)
        try:
            status = self._post(delivery.url, body, headers)
            reason = _reason(status)
        except http_post.Failed as exc:
            status, reason = 0, str(exc)
        test_points.reached('webhook.after', **info)
        if reason is None:
            self._database.write(deliveries.done, delivery)
        elif status == _GONE:
            self._database.write(_gone, delivery, self._clock.now())
        else:
            self._again(delivery, reason)

    def _again(self, delivery: Delivery, reason: str) -> None:
        now = self._clock.now()
        left = (delivery.created_at + self._give_up - now).total_seconds()
        LOG.warning(
            'The webhook of lease %s does not take %s: %s',
            delivery.lease_id,
            delivery.event_type,
            reason,
        )
        if left <= 0:
            self._database.write(_given_up, delivery, reason, now)
        else:
            # The last attempt is at the very end.
            seconds = min(left, self._backoff.delay(delivery.attempts))
            self._database.write(deliveries.later, delivery, seconds)


def _reason(status: int) -> str | None:
    """Say what is wrong with an answer; None if nothing is."""
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return f'It answered {status}, and redirects are not followed.'
    return f'It answered {status}.'


def _given_up(
    session: orm.Session, delivery: Delivery, reason: str, now: datetime.datetime
) -> None:
    told = f'The webhook was not told {delivery.event_type}, after many attempts: {reason}'
    if deliveries.done(session, delivery):
        entry = Entry(delivery.lease_id, now, ACTION, FAILED, told, None, None, {})
        history.add(session, entry)


def _gone(session: orm.Session, delivery: Delivery, now: datetime.datetime) -> None:
    """Take a webhook that wants to hear nothing any more away from its lease."""
    lease = leases.find(session, delivery.lease_id, lock=True)
    if lease is None or not deliveries.done(session, delivery):
        return
    if lease.webhook is None or lease.webhook['url'] != delivery.url:
        return
    why = 'The webhook answered 410: it is not called any more.'
    without = dataclasses.replace(lease, webhook=None)
    notices = {'lease.update': why} if lease.deleted_at is None else {}
    cause = Cause(ACTION, failure=why)
    store.save(session, lease, Change(without, notices), now, cause)
