# SPDX-License-Identifier: Apache-2.0
"""The script of the form of a new lease: it answers while the form is filled in."""

import datetime
import re
from urllib import parse

from playwright.sync_api import Request, Route, expect

from climateclient.models import Lease
from tests.browser.horizon import CREATE, Horizon, Show, picked
from tests.browser.promises import Promises, after
from tests.cloud.people import Person

MINUTE = datetime.timedelta(minutes=1)
ANSWERS = '**/climate_leases/create/check/*'


def mark(horizon: Horizon) -> None:
    """Mark the page, so that a test can see whether it was loaded again."""
    horizon.page.evaluate('window.marked = true')


def is_marked(horizon: Horizon) -> bool:
    return bool(horizon.page.evaluate('window.marked === true'))


def entered_name(request: Request) -> str:
    """Return the name of the lease in a request for an answer."""
    return parse.parse_qs(request.post_data or '')['name'][0]


def test_form_answers_while_it_is_filled_in(
    show: Show, member: Person, promises: Promises
) -> None:
    horizon = show(member, CREATE)
    mark(horizon)
    horizon.page.get_by_label('Name', exact=True).fill('nightly build')
    expect(horizon.messages()).to_contain_text('Fill in or correct: Flavor, Image.')
    # Only what the user has touched is marked.
    expect(horizon.page.locator('.has-error')).to_have_count(0)
    horizon.choose('What to reserve', 'Whole hosts')
    expect(horizon.messages()).to_contain_text('It would be granted')
    horizon.keep('dashboard-create')
    horizon.page.get_by_label('How many').fill('99')
    expect(horizon.messages()).to_contain_text('The lease would be rejected')
    horizon.page.get_by_label('How many').fill('1')
    horizon.page.get_by_label('Duration').fill('soon')
    expect(horizon.messages()).to_contain_text('Fill in or correct: Duration.')
    expect(horizon.page.locator('#climate_duration_error')).to_contain_text('soon')
    expect(horizon.page.get_by_label('Duration')).to_have_attribute('aria-invalid', 'true')
    assert horizon.flaws('.climate-create') == []
    horizon.page.get_by_label('Duration').fill('4h')
    expect(horizon.messages()).to_contain_text('It would be granted')
    expect(horizon.page.locator('.has-error')).to_have_count(0)
    assert is_marked(horizon)
    assert not [*member.leases.list()]


def test_next_start_is_filled_in_without_leaving_the_form(
    show: Show, member: Person, promises: Promises, taken: Lease
) -> None:
    horizon = show(member, CREATE)
    mark(horizon)
    earliest = after(hours=1)
    horizon.page.get_by_label('Starts in').fill('1h')
    horizon.page.get_by_label('Duration').fill('')
    end = after(hours=3, minutes=30)
    horizon.page.get_by_label('End (UTC)').fill(picked(end))
    horizon.page.get_by_label('Name', exact=True).fill('nightly build')
    horizon.choose('What to reserve', 'Whole hosts')
    offered = horizon.page.get_by_role('button', name='Start at')
    offered.focus()
    horizon.page.keyboard.press('Enter')
    expect(horizon.messages()).to_contain_text('It would be granted')
    start = horizon.page.get_by_label('Start (UTC)')
    expect(start).to_be_focused()
    expect(start).to_have_value(picked(taken.end_date))
    expect(horizon.page.get_by_label('Starts in')).to_have_value('')
    # The lease is as long as before. Pickers have whole minutes.
    latest = after(hours=1)
    value = horizon.page.get_by_label('End (UTC)').input_value()
    duration = datetime.datetime.fromisoformat(value) - taken.end_date.replace(tzinfo=None)
    assert end - latest - 2 * MINUTE <= duration <= end - earliest + MINUTE
    assert is_marked(horizon)
    horizon.create_lease('nightly build')
    assert promises.named('nightly build').start_date == taken.end_date


def test_later_change_aborts_the_request_of_an_earlier_one(
    show: Show, member: Person, promises: Promises
) -> None:
    horizon = show(member, CREATE)
    held: list[Route] = []

    def hold_first(route: Route) -> None:
        if entered_name(route.request) == 'first':
            held.append(route)
        else:
            route.continue_()

    horizon.page.route(ANSWERS, hold_first)
    name = horizon.page.get_by_label('Name', exact=True)
    with horizon.page.expect_request(ANSWERS):
        name.fill('first')
    outcome = horizon.page.locator('.climate-outcome')
    expect(outcome).to_have_attribute('aria-busy', 'true')
    with horizon.page.expect_event('requestfailed') as aborted:
        name.fill('second')
    assert entered_name(aborted.value) == 'first'
    expect(horizon.messages()).to_contain_text('Fill in or correct')
    expect(outcome).not_to_have_attribute('aria-busy', 'true')
    assert len(held) == 1


def test_failure_is_shown_and_the_next_answer_replaces_it(
    show: Show, member: Person, promises: Promises
) -> None:
    horizon = show(member, CREATE)
    horizon.page.route(ANSWERS, lambda route: route.abort())
    horizon.fill_in_lease('nightly build')
    outcome = horizon.page.locator('.climate-outcome')
    expect(outcome).to_contain_text('could not be checked')
    horizon.page.unroute(ANSWERS)
    horizon.button('Check').click()
    expect(horizon.messages()).to_contain_text('It would be granted')
    expect(outcome).not_to_contain_text('could not be checked')


def test_time_that_is_half_filled_in_is_not_taken_for_now(
    show: Show, member: Person, promises: Promises
) -> None:
    horizon = show(member, CREATE)
    horizon.fill_in_lease('nightly build')
    expect(horizon.messages()).to_contain_text('It would be granted')
    start = horizon.page.get_by_label('Start (UTC)')
    start.focus()
    horizon.page.keyboard.type('12')
    assert start.evaluate('field => field.validity.badInput')
    horizon.page.get_by_label('Name', exact=True).focus()
    expect(horizon.messages()).to_have_count(0)
    horizon.button('Create Lease').click()
    expect(start).to_be_focused()
    expect(horizon.page).to_have_url(re.compile('/create/$'))
    assert not [*member.leases.list()]


def test_form_works_without_script(show: Show, member: Person, promises: Promises) -> None:
    horizon = show(member)
    horizon.page.route('**/*.js', lambda route: route.abort())
    horizon.open(CREATE)
    horizon.page.get_by_label('Name', exact=True).fill('nightly build')
    horizon.page.locator('#climate_what').select_option('hosts', force=True)
    horizon.button('Check').click()
    expect(horizon.messages()).to_contain_text('It would be granted')
    expect(horizon.page).to_have_url(re.compile('do=check'))
    # Horizon's own parts of the page need its scripts.
    horizon.troubles[:] = [each for each in horizon.troubles if not each.startswith('script:')]
