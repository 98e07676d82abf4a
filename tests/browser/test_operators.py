# SPDX-License-Identifier: Apache-2.0
"""The pages of operators."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from climateclient.models import Lease
from tests.browser.conftest import PROJECT
from tests.browser.horizon import HOST_CALENDAR, HOSTS, QUEUE, USAGE, Show, picked
from tests.browser.promises import NOW, Promises, after
from tests.cloud.people import Person
from tests.cloud.pooling import enrolled


@pytest.fixture
def serviced(
    admin: Person, pool: tuple[str, ...], promises: Promises, others: Promises
) -> Iterator[str]:
    """Return a host of the pool that no lease has; it is in use again afterwards."""
    host = enrolled(admin)[pool[1]]
    try:
        yield host.hypervisor_hostname
    finally:
        admin.client.hosts.update(host.id, disabled=False)


def test_calendar_of_hosts_shows_the_leases_of_all_projects(
    show: Show,
    admin: Person,
    promises: Promises,
    others: Promises,
    pool: tuple[str, ...],
) -> None:
    promises.make('nightly build', NOW, after(hours=30))
    others.make('training', NOW, after(hours=20))
    promises.make('load test', after(hours=50), after(hours=80), hosts=2)
    horizon = show(admin, HOST_CALENDAR)
    horizon.keep('dashboard-calendar-of-hosts')
    # Each of the two is free between its leases, and after them.
    expect(horizon.page.locator('.climate-slot')).to_have_count(4)
    for host in pool:
        row = horizon.page.locator('.climate-row').filter(
            has=horizon.page.locator('.climate-label', has_text=host)
        )
        expect(row.locator('.climate-active')).to_have_count(1)
        expect(row.locator('.climate-pending')).to_have_count(1)
    expect(horizon.bar('load test')).to_have_count(2)
    text = re.compile(f', of the project {PROJECT}$')
    expect(horizon.bar('load test').first).to_have_attribute('aria-label', text)
    horizon.page.get_by_label('Filter').fill(pool[0])
    horizon.button('Show').click()
    expect(horizon.bar('load test')).to_have_count(1)
    horizon.bar('load test').click()
    expect(horizon.page).to_have_title(re.compile('load test'))


def test_sign_of_a_short_gap_is_not_behind_a_name(
    show: Show, admin: Person, promises: Promises, others: Promises, pool: tuple[str, ...]
) -> None:
    first = promises.make('training', NOW, after(hours=8), hosts=2)
    second = promises.make('load test', after(hours=12), after(hours=60), hosts=2)
    horizon = show(admin, HOST_CALENDAR)
    expect(horizon.bar('training').first).to_have_class(re.compile('climate-after'))
    # A click fails if something else is over the sign.
    horizon.page.locator('.climate-plus').first.click()
    horizon.expect_form(picked(first.end_date), picked(second.start_date))


def test_host_in_maintenance_is_shown_with_its_reason(
    show: Show, admin: Person, serviced: str
) -> None:
    horizon = show(admin, HOSTS)
    row = horizon.row(serviced)
    row.get_by_role('link', name='Maintenance').click()
    horizon.window().get_by_label('Reason').fill('new memory')
    horizon.window().get_by_role('button', name='Maintenance').click()
    expect(row).to_contain_text('new memory')
    horizon.keep('dashboard-hosts', 560)
    row.get_by_role('button', name='End Maintenance').click()
    expect(row).not_to_contain_text('new memory')
    expect(row).to_contain_text('Yes')


def test_waiting_lease_gets_another_priority(
    show: Show, admin: Person, promises: Promises, taken: Lease
) -> None:
    promises.queue('nightly build', after(hours=1), after(hours=2))
    horizon = show(admin, QUEUE)
    row = horizon.row('nightly build')
    horizon.keep('dashboard-queue', 560)
    row.get_by_role('link', name='Set Priority').click()
    horizon.window().get_by_label('Priority', exact=True).fill('7')
    horizon.window().get_by_role('button', name='Set Priority').click()
    expect(row.locator('td').nth(3)).to_have_text('7')
    assert promises.named('nightly build').priority == 7


def test_planned_usage_has_what_is_still_to_come(
    show: Show, admin: Person, promises: Promises
) -> None:
    promises.make('load test', after(days=8), after(days=9))
    horizon = show(admin, USAGE)
    horizon.link('Planned by Week').click()
    planned = horizon.row('browser').filter(has_text=re.compile(r'0\.0 / 0\.0 / [1-9]'))
    expect(planned).not_to_have_count(0)
    horizon.keep('dashboard-usage', 560)
    expect(horizon.page).to_have_title(re.compile('^Planned Usage'))
