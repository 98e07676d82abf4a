# SPDX-License-Identifier: Apache-2.0
"""Show the demo: what is typed, what was seen, and what it waits for."""

import datetime
import time
from collections.abc import Callable

import openstack
from openstack import utils
from rich.console import Console

from climate_cloud import bus
from climate_cloud.cloud import Cloud
from climate_cloud.person import Person

#: Seconds that the cloud may take for one thing: other work may keep the machine busy.
PATIENCE = 300
#: Leases are made to start so far ahead, and to last so long. When what comes before was seen, the
#: start and the end are brought forward: however slow the machine is, nothing is missed.
FAR = datetime.timedelta(hours=1)

console = Console(highlight=False, soft_wrap=True)


class DemoFailed(Exception):
    """The cloud did not do what the demo promises."""


def say(text: str) -> None:
    console.print(text, markup=False)


def check(fact: object, text: str) -> None:
    """Print a fact that was seen, or fail with it.

    :raises DemoFailed: it is not so
    """
    if not fact:
        raise DemoFailed(f'not so: {text}')
    say(f'  [ok] {text}')


def title(text: str) -> None:
    say(f'\n{text}')


def wait(
    done: Callable[[], bool], what: str, patience: float = PATIENCE, pause: float = 0.5
) -> None:
    """Wait for something that comes soon.

    :param patience: seconds
    :raises DemoFailed: it did not come
    """
    try:
        for _ in utils.iterate_timeout(patience, what, wait=pause):
            if done():
                return
    except openstack.exceptions.ResourceTimeout:
        raise DemoFailed(f'never seen in {patience} s: {what}') from None


def wait_until(when: datetime.datetime, what: str) -> None:
    """Let the time pass, and show it."""
    left = (when - datetime.datetime.now(datetime.UTC)).total_seconds()
    say(f'  {max(left, 0):.0f} s until {what} at {when:%T} UTC ...')
    with console.status(f'waiting for {what}') as status:
        while left > 0:
            time.sleep(min(left, 1))
            left = (when - datetime.datetime.now(datetime.UTC)).total_seconds()
            status.update(f'{what} in {max(left, 0):.0f} s')


class Part:
    """A part of the demo: a cloud, its user, and the notifications that are heard."""

    def __init__(self, cloud: Cloud, listener: bus.Listener) -> None:
        self.cloud = cloud
        self.listener = listener
        self.member = Person(cloud, 'demo')
        self.admin = Person(cloud, 'admin')

    def bring_forward(self, lease: str, what: str, seconds: int) -> None:
        """Move the ``start`` or the ``end`` of a lease to so many seconds from now."""
        self.member.types(
            'openstack', 'lease', 'set', lease, f'--{what}', f'+{seconds}s',
            '-c', 'name', '-c', f'{what}_date', '-c', 'status',
        )  # fmt: skip

    def hear(self, event_type: str, resource: str, state: str) -> None:
        """Wait for a notification, with the state that it says; fail when it does not come."""
        self.listener.wait(
            lambda: self.listener.find(event_type, resource, state) is not None, PATIENCE
        )
        heard = self.listener.find(event_type, resource, state)
        sender = f' from {heard.publisher}' if heard else ''
        check(heard, f'on the bus{sender}: {event_type}, {state}')
