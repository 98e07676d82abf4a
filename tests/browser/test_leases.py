# SPDX-License-Identifier: Apache-2.0
"""The way of a lease through the pages, from its form to its end."""

import re

from playwright.sync_api import expect

from climateclient.models import Lease
from tests.browser.horizon import CALENDAR, CREATE, LEASES, WIDTH, Horizon, Show, picked
from tests.browser.promises import NOW, Promises, after
from tests.cloud.people import Person, wait_for

#: A telephone.
NARROW = 400


def search(horizon: Horizon, text: str) -> None:
    """Look for leases of a name."""
    horizon.page.locator('input[name="leases__filter__q"]').fill(text)
    horizon.page.locator('#leases__action_filter').click()


def extend(horizon: Horizon, name: str, by: str) -> None:
    horizon.open(LEASES)
    horizon.row(name).get_by_role('link', name='Extend', exact=True).click()
    horizon.window().get_by_label('By', exact=True).fill(by)
    horizon.window().get_by_role('button', name='Extend').click()


def test_project_without_leases_sees_how_to_start(
    show: Show, member: Person, promises: Promises
) -> None:
    horizon = show(member, LEASES)
    expect(horizon.page.get_by_role('heading', name='Your project has no lease')).to_be_visible()
    for width in (WIDTH, NARROW):
        horizon.resize(width)
        assert horizon.flaws('.climate-page') == []
    horizon.resize(WIDTH)
    horizon.keep('dashboard-first-use', 640)
    horizon.button('Launch Instance').click()
    expect(horizon.page.locator('.ng-wizard')).to_contain_text('Reserve')


def test_lease_is_checked_created_and_seen_to_start(
    show: Show, member: Person, promises: Promises
) -> None:
    horizon = show(member, LEASES)
    horizon.link('Create Lease').click()
    horizon.fill_in_lease('nightly build')
    horizon.button('Check').click()
    expect(horizon.messages()).to_contain_text('It would be granted')
    expect(horizon.page.get_by_label('Name', exact=True)).to_have_value('nightly build')
    horizon.keep('checked')
    horizon.button('Create Lease').click()
    expect(horizon.messages()).to_contain_text('The lease nightly build was created.')
    # The row follows its lease without the page being loaded again.
    expect(horizon.row('nightly build')).to_contain_text('Active')
    horizon.keep('leases')
    assert promises.named('nightly build').status == 'ACTIVE'


def test_lease_is_extended_until_that_is_refused(
    show: Show, member: Person, promises: Promises, others: Promises
) -> None:
    lease = promises.make('nightly build', NOW, after(hours=4))
    others.make('training', after(hours=6), after(hours=8), hosts=2)
    horizon = show(member)
    extend(horizon, 'nightly build', '1h')
    expect(horizon.messages()).to_contain_text('nightly build ends at')
    later = promises.named('nightly build').end_date
    assert (later - lease.end_date).total_seconds() == 3600
    extend(horizon, 'nightly build', '3h')
    # It was said before.
    until = horizon.window().locator('dt', has_text='Can be extended until')
    expect(until).to_be_visible()
    expect(horizon.window()).to_contain_text('This lease could be extended until')
    horizon.keep('refused')
    expect(horizon.window().get_by_label('By', exact=True)).to_have_value('3h')
    assert promises.named('nightly build').end_date == later


def test_lease_is_found_by_its_name_and_shortened(
    show: Show, member: Person, promises: Promises
) -> None:
    lease = promises.make('nightly build', after(hours=2), after(hours=6))
    promises.make('load test', after(hours=2), after(hours=6))
    horizon = show(member, LEASES)
    expect(horizon.row('load test')).to_be_visible()
    search(horizon, 'nightly build')
    expect(horizon.row('load test')).to_have_count(0)
    horizon.act(horizon.row('nightly build'), 'Shorten')
    horizon.window().get_by_label('By', exact=True).fill('1h')
    horizon.window().get_by_role('button', name='Shorten').click()
    expect(horizon.messages()).to_contain_text('nightly build ends at')
    earlier = promises.named('nightly build').end_date
    assert (lease.end_date - earlier).total_seconds() == 3600
    search(horizon, '')
    expect(horizon.row('load test')).to_be_visible()


def test_lease_is_ended_and_its_bar_is_hollow_then(
    show: Show, member: Person, promises: Promises
) -> None:
    promises.make('nightly build', NOW, after(hours=4))
    horizon = show(member, LEASES)
    horizon.act(horizon.row('nightly build'), 'End Lease')
    horizon.confirm('End Lease')
    expect(horizon.row('nightly build')).to_contain_text('Ended')
    assert promises.named('nightly build').status == 'TERMINATED'
    horizon.open(CALENDAR)
    expect(horizon.bar('nightly build')).to_have_class(re.compile('climate-terminated'))


def test_rejected_lease_is_offered_a_later_start(
    show: Show, member: Person, promises: Promises, taken: Lease
) -> None:
    horizon = show(member, CREATE)
    horizon.fill_in_lease('nightly build')
    horizon.button('Check').click()
    expect(horizon.messages()).to_contain_text('The lease would be rejected')
    horizon.keep('offered')
    horizon.page.get_by_role('button', name='Start at').click()
    expect(horizon.messages()).to_contain_text('It would be granted')
    start = picked(taken.end_date)
    expect(horizon.page.get_by_label('Start (UTC)')).to_have_value(start)
    horizon.page.get_by_label('Start (UTC)').fill('')
    horizon.button('Earliest Possible').click()
    earliest = start.replace('T', ' ')
    expect(horizon.messages()).to_contain_text(f'The earliest start is {earliest}')
    horizon.page.get_by_role('button', name='Start at').click()
    expect(horizon.messages()).to_contain_text('It would be granted')
    horizon.create_lease('nightly build')
    assert promises.named('nightly build').start_date == taken.end_date


def test_new_server_is_made_for_the_lease_and_given_back(
    show: Show, member: Person, promises: Promises
) -> None:
    horizon = show(member, CREATE)
    horizon.page.get_by_label('Name', exact=True).fill('web')
    horizon.page.get_by_label('Starts in').fill('2h')
    horizon.choose('Flavor', 'm1.tiny')
    horizon.choose('Image', 'cirros')
    horizon.choose('Network', 'shared')
    horizon.button('Create Lease').click()
    expect(horizon.messages()).to_contain_text('The lease web was created.')
    lease = promises.named('web')
    server = wait_for(lambda: next(iter(member.sdk.compute.servers(name='web')), None), 'web')
    horizon.link('web').click()
    horizon.link('Resources').click()
    expect(horizon.row('Server')).to_contain_text('Pending')
    horizon.link('web').click()
    expect(horizon.page).to_have_url(re.compile(f'/project/instances/{server.id}/'))
    horizon.open(f'{LEASES}{lease.id}/?tab=lease__reservations')
    horizon.row('Server').get_by_role('button', name='Release').click()
    horizon.confirm('Release')
    wait_for(lambda: not [*member.sdk.compute.servers(name='web')], 'web gone')
    wait_for(lambda: promises.named('web').reservations[0].status == 'deleted', 'its end')
    horizon.open(f'{LEASES}{lease.id}/?tab=lease__reservations')
    expect(horizon.row('Server')).to_contain_text('Ended')
