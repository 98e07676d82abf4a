# SPDX-License-Identifier: Apache-2.0
"""Messages of oslo.messaging's driver ``fake`` that are noticed when they come.

A listener of that driver looks for messages twenty times a second: each call waits for the next
look, and so does each service that stops.
"""

import functools
import threading
import time
from types import SimpleNamespace

from oslo_messaging._drivers import impl_fake

_happened = threading.Condition()


def notice():
    """Wake the listeners when there is a message for one, or one is to stop."""
    impl_fake.time = SimpleNamespace(time=time.time, sleep=_sleep)
    _tell(impl_fake.FakeExchange, 'deliver_message')
    _tell(impl_fake.FakeListener, 'stop')


def _sleep(seconds):
    with _happened:
        _happened.wait(seconds)


def _tell(kind, method):
    do = getattr(kind, method)

    @functools.wraps(do)
    def told(*args, **kwargs):
        do(*args, **kwargs)
        with _happened:
            _happened.notify_all()

    setattr(kind, method, told)
