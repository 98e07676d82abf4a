# SPDX-License-Identifier: Apache-2.0
"""What a user with the role reader sees: everything, and no buttons."""

from playwright.sync_api import expect

from tests.browser.horizon import CALENDAR, CREATE, LEASES, Show
from tests.browser.promises import NOW, Promises, after
from tests.cloud.people import Person

BUTTONS = ('Create Lease', 'Extend', 'Shorten', 'Start Lease', 'End Lease', 'Give Back')


def test_reader_sees_leases_without_buttons(
    show: Show, reader: Person, promises: Promises
) -> None:
    lease = promises.make('nightly build', NOW, after(hours=4))
    horizon = show(reader)
    tabs = [f'{lease.id}/?tab=lease__{tab}' for tab in ('overview', 'reservations', 'history')]
    for path in ('', *tabs):
        horizon.open(f'{LEASES}{path}')
        content = horizon.page.locator('#content_body')
        expect(content.get_by_text('nightly build').first).to_be_visible()
        for name in BUTTONS:
            expect(content.get_by_text(name)).to_have_count(0)


def test_reader_sees_the_calendar_whose_gaps_lead_nowhere(
    show: Show, reader: Person, promises: Promises
) -> None:
    lease = promises.make('nightly build', after(hours=1), after(hours=30))
    horizon = show(reader, CALENDAR)
    page = f'/{LEASES}{lease.id}/'
    expect(horizon.bar('nightly build')).to_have_attribute('href', page)
    expect(horizon.page.locator('[class*="climate-free-"]').first).to_be_visible()
    expect(horizon.page.locator('a[class*="climate-free-"]')).to_have_count(0)


def test_reader_is_refused_the_form_of_a_lease(show: Show, reader: Person) -> None:
    horizon = show(reader, CREATE)
    expect(horizon.button('Create Lease')).to_have_count(0)
    expect(horizon.page.get_by_text('You are not authorized')).to_be_visible()
