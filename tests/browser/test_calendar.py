# SPDX-License-Identifier: Apache-2.0
"""The calendar of a project."""

import re

from playwright.sync_api import Locator, expect

from tests.browser.horizon import CALENDAR, LEASES, Horizon, Show, picked
from tests.browser.promises import NOW, Promises, after
from tests.cloud.people import Person


def place(part: Locator) -> tuple[float, float]:
    """Return where a part of a row begins and ends, in percent of the row."""
    box = part.bounding_box()
    track = part.locator('xpath=..').bounding_box()
    assert box
    assert track
    left = 100 * (box['x'] - track['x']) / track['width']
    return left, left + 100 * box['width'] / track['width']


def reach(horizon: Horizon, part: Locator) -> None:
    """Go to a part of the page by the keyboard; fail if that does not come there."""
    for _ in range(200):
        horizon.page.keyboard.press('Tab')
        if part.evaluate('each => each === document.activeElement'):
            return
    raise AssertionError('never reached by the keyboard')


def test_bars_stand_where_their_times_are(show: Show, member: Person, promises: Promises) -> None:
    promises.make('nightly build', NOW, after(hours=30))
    promises.make('load test', after(hours=40), after(hours=60), hosts=2)
    promises.make('training for newcomers', after(hours=70), after(hours=90))
    horizon = show(member, CALENDAR)
    horizon.keep('dashboard-calendar')
    week = 7 * 24
    now, _ = place(horizon.page.locator('.climate-now').last)
    running, waiting = (place(horizon.bar(name)) for name in ('nightly build', 'load test'))
    assert abs(running[0] - now) < 1
    assert abs(running[1] - now - 100 * 30 / week) < 1
    assert abs(waiting[0] - now - 100 * 40 / week) < 1
    assert abs(waiting[1] - waiting[0] - 100 * 20 / week) < 1


def test_names_of_bars_are_not_cut_at_the_edge(
    show: Show, member: Person, promises: Promises
) -> None:
    promises.make('training for newcomers', after(hours=70), after(hours=90))
    horizon = show(member, CALENDAR)
    name = horizon.bar('training for newcomers').locator('.climate-name')
    begins, ends = name.bounding_box(), name.locator('xpath=../..').bounding_box()
    assert begins
    assert ends
    assert begins['x'] >= ends['x']
    assert begins['x'] + begins['width'] <= ends['x'] + ends['width']


def test_lease_is_opened_by_the_keyboard(show: Show, member: Person, promises: Promises) -> None:
    lease = promises.make('nightly build', after(hours=1), after(hours=30))
    horizon = show(member, CALENDAR)
    bar = horizon.bar('nightly build')
    reach(horizon, bar)
    outline = bar.evaluate('each => getComputedStyle(each).outlineStyle')
    assert outline != 'none'
    horizon.page.keyboard.press('Enter')
    expect(horizon.page).to_have_url(re.compile(f'/{LEASES}{lease.id}/'))
    expect(horizon.page).to_have_title(re.compile('nightly build'))


def test_table_below_the_calendar_is_opened_by_the_keyboard(
    show: Show, member: Person, promises: Promises
) -> None:
    promises.make('nightly build', after(hours=1), after(hours=30))
    horizon = show(member, CALENDAR)
    table = horizon.page.locator('.climate-table')
    expect(table.locator('table')).to_be_hidden()
    title = table.locator('summary')
    # Only so there is a sign that it can be opened.
    assert title.evaluate('each => getComputedStyle(each).display') == 'list-item'
    reach(horizon, title)
    horizon.page.keyboard.press('Enter')
    expect(table.get_by_role('link', name='nightly build')).to_be_visible()


def test_gap_leads_to_the_form_of_a_lease(
    show: Show, member: Person, promises: Promises, others: Promises
) -> None:
    first = others.make('training', NOW, after(hours=10), hosts=2)
    second = others.make('exam', after(hours=20), after(hours=40), hosts=2)
    horizon = show(member, CALENDAR)
    row = horizon.page.locator('.climate-row').filter(
        has=horizon.page.locator('.climate-label', has_text=re.compile(r'^\s*Hosts\s*default'))
    )
    # Of the leases of other projects the calendar shows only the free capacity.
    expect(horizon.page.get_by_text('training')).to_have_count(0)
    gap = f'2 of 2 free, 0 are yours, from {first.end_date:%Y-%m-%d %H:%M} UTC'
    row.get_by_role('link', name=gap).click()
    horizon.expect_form(picked(first.end_date), picked(second.start_date))


def test_day_without_a_lease_leads_to_the_form(
    show: Show, member: Person, promises: Promises
) -> None:
    horizon = show(member, CALENDAR)
    expect(horizon.page.get_by_text('Nothing is reserved in this period.')).to_be_visible()
    slot = horizon.page.locator('.climate-slot').last
    first, second = re.findall(r'\d{4}-\d\d-\d\d', slot.get_attribute('title') or '')
    reach(horizon, slot)
    horizon.page.keyboard.press('Enter')
    horizon.expect_form(first, second)


def test_click_beside_a_bar_leads_to_the_form(
    show: Show, member: Person, promises: Promises
) -> None:
    promises.make('nightly build', after(hours=1), after(hours=5))
    horizon = show(member, CALENDAR)
    slot = horizon.page.locator('.climate-slot').nth(3)
    first, second = re.findall(r'\d{4}-\d\d-\d\d', slot.get_attribute('title') or '')
    box, row = slot.bounding_box(), horizon.bar('nightly build').bounding_box()
    assert box
    assert row
    horizon.page.mouse.click(box['x'] + box['width'] / 2, row['y'] + row['height'] / 2)
    horizon.expect_form(first, second)


def test_text_over_a_bar_is_shown_by_mouse_and_keyboard(
    show: Show, member: Person, promises: Promises
) -> None:
    lease = promises.make('nightly build', after(hours=1), after(hours=5))
    horizon = show(member, CALENDAR)
    bar = horizon.bar('nightly build')
    tip = bar.locator('.climate-tip')
    expect(tip).to_be_hidden()
    bar.hover()
    expect(tip).to_be_visible()
    for text in ('nightly build', 'Pending', f'{lease.end_date:%Y-%m-%d %H:%M} UTC', 'Hosts'):
        expect(tip).to_contain_text(text)
    horizon.keep('tip')
    horizon.page.mouse.move(0, 0)
    expect(tip).to_be_hidden()
    reach(horizon, bar)
    expect(tip).to_be_visible()


def test_times_are_in_the_zone_of_the_user(show: Show, member: Person, promises: Promises) -> None:
    promises.make('nightly build', after(hours=1), after(hours=5))
    elsewhere, horizon = show(member), show(member)
    for each, zone in ((elsewhere, 'America/New_York'), (horizon, 'Asia/Kathmandu')):
        each.open('settings/')
        each.page.locator('select[name=timezone]').select_option(zone, force=True)
        each.button('Save').click()
        expect(each.messages()).to_contain_text('Settings saved')
    horizon.open(CALENDAR)
    expect(horizon.page.locator('.climate-window')).to_contain_text('Asia/Kathmandu')
    # The window in the page is asked for by a script, whose requests have no zone of their own.
    elsewhere.open(LEASES)
    horizon.open(LEASES)
    elsewhere.row('nightly build').get_by_role('link', name='Extend').click()
    expect(elsewhere.window()).to_contain_text('America/New_York')
    horizon.row('nightly build').get_by_role('link', name='Extend').click()
    expect(horizon.window()).to_contain_text('Asia/Kathmandu')
    expect(horizon.window()).to_contain_text('+0545')
