# SPDX-License-Identifier: Apache-2.0
"""The local cloud, with a lease service that does not wait as long as it does elsewhere.

It must be up: ``devstack/local/cloud up``.
"""

import contextlib
import os
import pathlib
import random
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.chaos.reservations import Reservations
from tests.cloud.people import CONF, STATE, Person, cloud, environment, member_of

#: What counts as lost does so after a minute; what failed is tried again soon.
IMPATIENT_CLIMATE = """
[engine]
claim_ttl = 10
retry_max_seconds = 10
[virtual:instance]
lost_build_minutes = 1
lost_delete_minutes = 1
lost_task_minutes = 1
[virtual:volume]
lost_create_minutes = 1
lost_delete_minutes = 1
lost_detach_minutes = 1
[virtual:stack]
lost_action_minutes = 1
"""
IMPATIENT_HEAT = """
[climate]
lost_attach_seconds = 60
"""


@pytest.fixture(scope='session')
def seed() -> int:
    """Return the number that chooses what is killed; ``SEED`` in the environment gives it."""
    seed = int(os.environ.get('SEED') or random.randrange(1, 32768))
    print(f'\nseed {seed} (to repeat: SEED={seed} tools/suite chaos)')
    return seed


@pytest.fixture(scope='session')
def say() -> Callable[[str], None]:
    """Print a line of progress."""
    began = time.monotonic()

    def say(text: str) -> None:
        print(f'{time.monotonic() - began:4.0f} s  {text}', flush=True)

    return say


@pytest.fixture(scope='session')
def admin() -> Person:
    """Return the cloud's administrator."""
    return Person(environment('admin'))


@pytest.fixture(scope='session')
def impatient() -> Iterator[None]:
    """Let climate-manager and heat-engine run with other options."""
    with (
        _configured(CONF, IMPATIENT_CLIMATE, 'climate-manager'),
        _configured(STATE / 'etc/heat/heat.conf', IMPATIENT_HEAT, 'heat-engine'),
    ):
        yield


@contextlib.contextmanager
def _configured(file: pathlib.Path, more: str, service: str) -> Iterator[None]:
    before = file.read_text(encoding='utf-8')
    file.write_text(before + more, encoding='utf-8')
    try:
        cloud('restart', service)
        yield
    finally:
        file.write_text(before, encoding='utf-8')
        cloud('restart', service)


@pytest.fixture
def reservations(admin: Person, impatient: None) -> Iterator[Reservations]:
    """Return what is reserved in a project that nobody has used."""
    made = Reservations(member_of(admin, f'chaos-{uuid.uuid4().hex[:8]}'))
    yield made
    made.clean()
