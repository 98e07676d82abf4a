# SPDX-License-Identifier: Apache-2.0
"""Do steps that depend on each other, as many at once as their order allows."""

import concurrent.futures
import graphlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence

#: Seconds between two tries.
LOOK_AGAIN = 0.25


def run(
    steps: Mapping[str, tuple[Sequence[str], Callable[[], None]]],
    say: Callable[[str], None] = lambda _: None,
    give_up: threading.Event | None = None,
) -> None:
    """Run every step once, after those that it needs.

    The first failure, or Ctrl-C, is raised when the steps that already run have come to their
    end; no new ones are begun.

    :param steps: name -> (names of the steps it needs, what to do)
    :param say: prints a line of progress
    :param give_up: set to tell running steps that waiting is in vain
    """
    give_up = give_up or threading.Event()
    order = graphlib.TopologicalSorter({name: needs for name, (needs, _) in steps.items()})
    order.prepare()
    running: dict[concurrent.futures.Future, str] = {}
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(steps) or 1) as threads:
        try:
            while order.is_active():
                for name in order.get_ready():
                    running[threads.submit(_timed, steps[name][1])] = name
                done, _ = concurrent.futures.wait(
                    running, return_when=concurrent.futures.FIRST_COMPLETED
                )
                for future in done:
                    name = running.pop(future)
                    if (seconds := future.result()) >= 0.5:
                        say(f'{name} ({seconds:.0f} s)')
                    order.done(name)
        except BaseException:
            give_up.set()
            if running:
                say(f'letting {", ".join(running.values())} come to an end ...')
            raise


def retry(
    action: Callable[[], None],
    refusal: type[Exception] | tuple[type[Exception], ...],
    seconds: float,
    give_up: threading.Event,
) -> None:
    """Do something that may be refused for a while.

    :param seconds: so long at most; then the refusal is raised, as it is if ``give_up`` is set
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            action()
        except refusal:
            if time.monotonic() > deadline or give_up.wait(LOOK_AGAIN):
                raise
        else:
            return


def _timed(action: Callable[[], None]) -> float:
    started = time.monotonic()
    action()
    return time.monotonic() - started
