# SPDX-License-Identifier: Apache-2.0
import threading

import pytest
from oslo_config import cfg

from climate_core import concurrency, exceptions
from climate_core.cloud import connections
from climate_core.conf import cloud as cloud_conf


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_recent_keeps_what_was_made():
    recent = concurrency.RecentCache(2, 10.0, Clock())
    made = []
    assert recent.get('a', lambda: made.append(1) or 'A') == 'A'
    assert recent.get('a', lambda: made.append(1) or 'B') == 'A'
    assert made == [1]


def test_recent_makes_anew_what_is_old():
    clock = Clock()
    recent = concurrency.RecentCache(2, 10.0, clock)
    recent.get('a', lambda: 'A')
    clock.now = 10.0
    assert recent.get('a', lambda: 'B') == 'B'


def test_recent_lets_the_least_recently_used_go():
    recent = concurrency.RecentCache(2, 10.0, Clock())
    for key in 'abac':
        recent.get(key, lambda key=key: key + '1')
    assert recent.get('a', lambda: 'a2') == 'a1'
    assert recent.get('b', lambda: 'b2') == 'b2'


def test_dropped_value_is_asked_for_again():
    recent = concurrency.RecentCache(2, 10.0, Clock())
    recent.get('a', lambda: 'A')
    recent.drop('a')
    recent.drop('a')
    assert recent.get('a', lambda: 'B') == 'B'


def test_recent_does_not_hold_its_lock_while_making():
    recent = concurrency.RecentCache(2, 10.0, Clock())
    other = threading.Thread(target=recent.get, args=('b', lambda: 'B'))

    def make():
        other.start()
        other.join(20)
        return 'A'

    assert recent.get('a', make) == 'A'
    assert not other.is_alive()


def test_an_identity_is_needed():
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[])
    conf.register_opts(cloud_conf.OPTS, group=cloud_conf.GROUP)
    with pytest.raises(exceptions.Transient, match='auth_type'):
        connections.service_identity(conf)


def test_of_what_two_make_at_once_both_get_the_first():
    recent = concurrency.RecentCache(2, 10.0, Clock())
    assert recent.get('a', lambda: recent.get('a', lambda: 'first') + ' is late') == 'first'
    assert recent.get('a', lambda: 'new') == 'first'
