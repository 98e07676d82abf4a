# SPDX-License-Identifier: Apache-2.0
"""A browser, and users of the local cloud with whose eyes it looks at Horizon.

The cloud must be up, with Horizon: ``CLIMATE_CLOUD_HORIZON=1 devstack/local/cloud up``.
"""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from climateclient.models import Lease
from tests.browser.horizon import Horizon, Show, log_in
from tests.browser.promises import NOW, Promises, after
from tests.cloud.people import Person, environment, member_of, wait_for
from tests.cloud.pooling import POOL, enrolled

#: The programs that can be it, the usual one first. Playwright's own are not installed.
_BROWSERS = ('chromium', 'chromium-browser', 'google-chrome')
#: What Chromium needs to run as root, and where there is little shared memory.
_OPTIONS = ('--no-sandbox', '--disable-dev-shm-usage')
PROJECT = 'browser'


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> object:
    """Keep what the pages show when a test fails."""
    report = yield
    if report.failed and call.when == 'call':
        for number, horizon in enumerate(item.stash.get(_SHOWN, [])):
            horizon.keep_failure(f'{item.name}-{number}')
    return report


_SHOWN = pytest.StashKey[list[Horizon]]()


@pytest.fixture(scope='session')
def browser() -> Iterator[Browser]:
    """Return the browser of the system."""
    found = next(filter(None, map(shutil.which, _BROWSERS)), None)
    assert found, f'none of these programs is installed: {", ".join(_BROWSERS)}'
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=[*_OPTIONS])
        yield browser
        browser.close()


@pytest.fixture(scope='session')
def admin() -> Person:
    """Return the cloud's administrator."""
    return Person(environment('admin'))


@pytest.fixture(scope='session')
def member(admin: Person) -> Person:
    """Return an ordinary member of a project."""
    return member_of(admin, PROJECT)


@pytest.fixture(scope='session')
def stranger(admin: Person) -> Person:
    """Return an ordinary member of another project."""
    return member_of(admin, f'{PROJECT}-other')


@pytest.fixture(scope='session')
def logged_in(browser: Browser) -> dict[str, object]:
    """Return the states of the browser in which users are logged in, by their names."""
    return {}


@pytest.fixture
def show(
    browser: Browser, logged_in: dict[str, object], request: pytest.FixtureRequest
) -> Iterator[Show]:
    """Return what opens Horizon for a user; nothing may go wrong on the pages unseen."""
    shown: list[Horizon] = []
    request.node.stash[_SHOWN] = shown

    def show(person: Person, path: str | None = None) -> Horizon:
        name = person.environment['OS_USERNAME']
        if name not in logged_in:
            logged_in[name] = log_in(browser, person)
        horizon = Horizon(browser, logged_in[name])
        shown.append(horizon)
        if path is not None:
            horizon.open(path)
        return horizon

    yield show
    for horizon in shown:
        horizon.close()
    assert [each for horizon in shown for each in horizon.troubles] == []


@pytest.fixture(scope='session')
def pool(admin: Person) -> tuple[str, ...]:
    """Return the names of the hosts of the pool, once they can be promised."""
    for host in POOL:
        wait_for(lambda host=host: enrolled(admin)[host].reservable, f'{host} in use')
    return POOL


@pytest.fixture
def promises(member: Person, pool: tuple[str, ...]) -> Iterator[Promises]:
    """Return the leases of the member's project, which has none yet."""
    yield from _emptied(member)


@pytest.fixture
def others(stranger: Person, pool: tuple[str, ...]) -> Iterator[Promises]:
    """Return the leases of another project, which has none yet."""
    yield from _emptied(stranger)


@pytest.fixture
def taken(others: Promises) -> Lease:
    """Return a lease of another project that has all hosts of the pool for three hours."""
    return others.make('training', NOW, after(hours=3), hosts=len(POOL))


def _emptied(person: Person) -> Iterator[Promises]:
    """Yield the leases of a user's project; it has none before, and none afterwards."""
    made = Promises(person)
    made.clean()
    yield made
    made.clean()
