# SPDX-License-Identifier: Apache-2.0
"""Kill processes of the local cloud at random, and start them again."""

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator

from tests.cloud.people import STATE, cloud

#: The processes that are killed.
VICTIMS = (
    'mariadb',
    'rabbitmq',
    'nova-conductor',
    'nova-api',
    'nova-compute1',
    'nova-compute2',
    'nova-compute3',
    'climate-manager',
)
#: Seconds between a start and the next kill.
PAUSES = (1.0, 5.0)
Say = Callable[[str], None]


class Killer:
    """A thread that kills up to three processes, starts them again, and so on.

    :param say: prints a line of progress
    """

    def __init__(self, seed: int, say: Say) -> None:
        self._random = random.Random(seed)
        self._say = say
        self._stopped = threading.Event()
        self._deck: list[str] = []
        self.kills = 0

    def run(self) -> None:
        """Kill until :meth:`stop`, with pauses; every process runs afterwards."""
        while not self._stopped.wait(self._random.uniform(*PAUSES)):
            victims = self._deal(self._random.choice((1, 2, 2, 3)))
            for name in victims:
                kill(name)
            self.kills += len(victims)
            self._say(f'killed {", ".join(victims)}')
            began = time.monotonic()
            cloud('restart', *victims)
            self._say(f'started {", ".join(victims)} ({time.monotonic() - began:.0f} s)')

    def _deal(self, number: int) -> list[str]:
        """Choose processes; none is chosen again before each was."""
        if not self._deck:
            self._deck = self._random.sample(VICTIMS, len(VICTIMS))
        dealt, self._deck = self._deck[:number], self._deck[number:]
        return dealt

    def stop(self) -> None:
        """Let the round that runs be the last."""
        self._stopped.set()


def kill(service: str) -> None:
    """Kill a process of the cloud, and what it has started, with SIGKILL."""
    pid = int((STATE / 'run' / f'{service}.pid').read_text().split()[0])
    os.killpg(pid, signal.SIGKILL)


@contextlib.contextmanager
def killing(seed: int, say: Say) -> Iterator[Killer]:
    """Kill processes as long as the context lasts; all of them run afterwards."""
    killer, failures = Killer(seed, say), []

    def run() -> None:
        try:
            killer.run()
        except BaseException as exc:  # noqa: BLE001 it is raised by the thread of the test
            failures.append(exc)

    thread = threading.Thread(target=run, name='killer')
    thread.start()
    try:
        yield killer
    finally:
        killer.stop()
        thread.join()
    if failures:
        raise failures[0]
