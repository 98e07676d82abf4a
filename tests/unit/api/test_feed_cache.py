# SPDX-License-Identifier: Apache-2.0
"""What a process of the API remembers of feeds, and for how long."""

import threading

import pytest

from climate_core import exceptions
from climate_core.api import calendar_feed


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Feed:
    """Render a feed, and count how often."""

    def __init__(self, body: bytes = b'feed') -> None:
        self.body, self.rendered = body, 0
        self.error: Exception | None = None

    def __call__(self) -> bytes:
        self.rendered += 1
        if self.error is not None:
            raise self.error
        return self.body


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> calendar_feed.FeedCache:
    return calendar_feed.FeedCache(60.0, clock)


def test_feed_is_rendered_once_in_its_time(cache: calendar_feed.FeedCache, clock: Clock) -> None:
    feed = Feed()
    for _ in range(5):
        assert cache.get('a', feed) == b'feed'
    assert feed.rendered == 1
    clock.now += 60
    cache.get('a', feed)
    assert feed.rendered == 2


def test_lost_right_is_remembered_and_another_failure_is_not(
    cache: calendar_feed.FeedCache, clock: Clock
) -> None:
    feed = Feed()
    feed.error = exceptions.ServiceUnavailable('Keystone does not answer.')
    for _ in range(2):
        with pytest.raises(exceptions.ServiceUnavailable):
            cache.get('a', feed)
    assert feed.rendered == 2
    feed.error = exceptions.Forbidden('No role.')
    for _ in range(2):
        with pytest.raises(exceptions.Forbidden, match=r'No role\.'):
            cache.get('a', feed)
    assert feed.rendered == 3
    feed.error = None
    clock.now += 60
    assert cache.get('a', feed) == b'feed'


def test_feed_is_rendered_by_one_request_at_a_time(cache: calendar_feed.FeedCache) -> None:
    entered, leave = threading.Event(), threading.Event()

    def render() -> bytes:
        entered.set()
        assert leave.wait(30)
        return b'feed'

    first = threading.Thread(target=cache.get, args=('a', render))
    first.start()
    assert entered.wait(30)
    with pytest.raises(exceptions.FeedBusy) as busy:
        cache.get('a', Feed())
    assert (busy.value.status, busy.value.retry_after) == (429, 1)
    assert cache.get('b', Feed(b'other')) == b'other'
    leave.set()
    first.join()
    assert cache.get('a', Feed(b'never')) == b'feed'


@pytest.mark.parametrize(('name', 'most'), [('MAX_FEEDS', 2), ('MAX_BYTES', 9)])
def test_feeds_that_were_read_longest_ago_are_forgotten(
    cache: calendar_feed.FeedCache, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    monkeypatch.setattr(calendar_feed, name, most)
    feeds = {each: Feed() for each in 'abc'}
    for each in 'abac':
        cache.get(each, feeds[each])
    cache.get('a', feeds['a'])
    assert feeds['a'].rendered == 1
    cache.get('b', feeds['b'])
    assert feeds['b'].rendered == 2


def test_feed_above_the_bound_is_sent_and_not_kept(
    cache: calendar_feed.FeedCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calendar_feed, 'MAX_BYTES', 3)
    feed = Feed()
    assert [cache.get('a', feed) for _ in range(2)] == [b'feed', b'feed']
    assert feed.rendered == 2


def test_zero_seconds_keep_nothing() -> None:
    cache, feed = calendar_feed.FeedCache(0.0), Feed()
    cache.get('a', feed)
    cache.get('a', feed)
    assert feed.rendered == 2
