# SPDX-License-Identifier: Apache-2.0
"""Whether users with disabilities, small screens and large ones can use the pages."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.horizon import (
    CALENDAR,
    CREATE,
    HOST_CALENDAR,
    HOSTS,
    LEASES,
    QUEUE,
    USAGE,
    Horizon,
    Show,
)
from tests.browser.promises import NOW, Promises, after
from tests.cloud.people import Person

#: A telephone, and a large screen.
NARROW, WIDE = 400, 1920
CALENDAR_PART, TABLE_PART = '.climate-calendar', '.climate-page'


def look(horizon: Horizon, path: str, part: str) -> None:
    """Look at a page on both screens; fail if a part of it has flaws, or the page is too wide."""
    horizon.open(path)
    for width in (WIDE, NARROW):
        horizon.resize(width)
        expect(horizon.page.locator(part).first).to_be_visible()
        assert horizon.flaws(part) == []
        assert horizon.page.evaluate('document.documentElement.scrollWidth') <= width


@pytest.fixture(scope='module')
def three(member: Person, stranger: Person, pool: tuple[str, ...]) -> Iterator[str]:
    """Make leases that run, are to come and wait; return the id of the first."""
    promises, others = Promises(member), Promises(stranger)
    for each in (promises, others):
        each.clean()
    running = promises.make('nightly build', NOW, after(hours=30))
    promises.make('load test', after(hours=40), after(hours=60), hosts=2)
    others.queue('training', after(hours=41), after(hours=42))
    yield str(running.id)
    for each in (promises, others):
        each.clean()


@pytest.mark.parametrize(
    ('path', 'part'),
    [(LEASES, TABLE_PART), (CREATE, '.climate-create'), (CALENDAR, CALENDAR_PART)],
)
def test_pages_of_members_can_be_used_by_all(
    show: Show, member: Person, three: str, path: str, part: str
) -> None:
    look(show(member), path, part)


@pytest.mark.parametrize('tab', ['overview', 'reservations', 'events', 'history'])
def test_page_of_a_lease_can_be_used_by_all(
    show: Show, member: Person, three: str, tab: str
) -> None:
    look(show(member), f'{LEASES}{three}/?tab=lease__{tab}', TABLE_PART)


@pytest.mark.parametrize(
    ('path', 'part'),
    [
        (HOSTS, TABLE_PART),
        (HOST_CALENDAR, CALENDAR_PART),
        (QUEUE, TABLE_PART),
        (USAGE, TABLE_PART),
    ],
)
def test_pages_of_operators_can_be_used_by_all(
    show: Show, admin: Person, three: str, path: str, part: str
) -> None:
    look(show(admin), path, part)


def test_window_in_a_page_can_be_used_by_all(show: Show, member: Person, three: str) -> None:
    horizon = show(member, LEASES)
    horizon.row('nightly build').get_by_role('link', name='Extend').click()
    expect(horizon.window()).to_contain_text('It ends now at')
    for width in (WIDE, NARROW):
        horizon.resize(width)
        assert horizon.flaws('.modal .modal-body') == []


def test_lease_is_ended_on_a_narrow_screen(show: Show, member: Person, promises: Promises) -> None:
    promises.make('nightly build', after(hours=1), after(hours=2))
    horizon = show(member)
    horizon.resize(NARROW)
    horizon.open(LEASES)
    row = horizon.row('nightly build')
    horizon.act(row, 'End Lease')
    horizon.confirm('End Lease')
    expect(row).to_contain_text('Ended')
    horizon.keep('narrow')
