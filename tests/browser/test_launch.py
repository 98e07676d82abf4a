# SPDX-License-Identifier: Apache-2.0
"""A server that is reserved in Horizon's own form."""

import datetime
import json
import re
import zoneinfo
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Route, expect

from tests.browser.horizon import INSTANCES, Horizon, Show, address
from tests.browser.promises import Promises, after
from tests.cloud.people import Person, wait_for

NAME = 'nightly build'


@pytest.fixture
def servers(member: Person, promises: Promises) -> Iterator[Person]:
    """Return the member, whose servers are deleted afterwards."""
    yield member
    for server in member.sdk.compute.servers(name=NAME):
        member.sdk.compute.delete_server(server, ignore_missing=True)
    wait_for(lambda: not [*member.sdk.compute.servers(name=NAME)], 'no server')


def states(person: Person) -> list[str]:
    return [server.vm_state for server in person.sdk.compute.servers(name=NAME)]


def go_to(horizon: Horizon, title: str) -> Locator:
    """Go to a step of the form; return its fields."""
    form = horizon.page.locator('.ng-wizard')
    form.locator('.nav-item').filter(has_text=re.compile(rf'^\s*{title}\s*$')).click()
    return form.locator('.step:visible')


def allocate(horizon: Horizon, title: str, name: str) -> None:
    """Choose what has a name in a step."""
    row = go_to(horizon, title).locator('tr', has=horizon.page.get_by_text(name, exact=True))
    row.locator('button:visible').last.click()


def fill_in(horizon: Horizon) -> None:
    """Open the form, and fill in all that Nova needs."""
    horizon.open(INSTANCES)
    horizon.page.locator('#instances__action_launch-ng').click()
    go_to(horizon, 'Details').get_by_label('Instance Name').fill(NAME)
    source = go_to(horizon, 'Source')
    source.locator('.form-group', has_text='Create New Volume').get_by_text('No').click()
    allocate(horizon, 'Source', 'cirros')
    allocate(horizon, 'Flavor', 'm1.tiny')
    # Horizon chooses the only network of a project.


def reserve(horizon: Horizon, start: datetime.datetime) -> Locator:
    """Fill in the step of the reservation; return its fields."""
    form = go_to(horizon, 'Reserve')
    form.get_by_text('Reserve this instance').click()
    form.get_by_label('Start').fill(f'{start:%Y-%m-%dT%H:%M}')
    form.get_by_label('Duration').fill('90m')
    form.get_by_label('At the end').select_option('Shut off')
    return form


def test_server_is_reserved(show: Show, servers: Person, promises: Promises) -> None:
    start = after(hours=2)
    horizon = show(servers)
    fill_in(horizon)
    reserve(horizon, start)
    assert horizon.flaws('.climate-launch') == []
    horizon.keep('dashboard-launch', 680)
    horizon.button('Launch Instance').last.click()
    # Nova creates the lease while it builds the server.
    wait_for(lambda: states(servers) == ['reserved'], 'RESERVED')
    lease = promises.named(NAME)
    assert lease.start_date == start
    assert (lease.end_date - start).total_seconds() == 90 * 60
    assert lease.reservations[0].params['on_end'] == 'stop'


def test_start_is_in_the_zone_of_the_user(show: Show, member: Person) -> None:
    start, sent = after(hours=2), []
    horizon = show(member)
    cookie: Any = {'name': 'django_timezone', 'value': 'Asia/Kathmandu', 'url': address()}
    horizon.page.context.add_cookies([cookie])

    def answer(route: Route) -> None:
        sent.append(route.request.post_data_json)
        route.fulfill(status=201, json={})

    horizon.page.route('**/api/nova/servers/', answer)
    fill_in(horizon)
    form = reserve(horizon, start.astimezone(zoneinfo.ZoneInfo('Asia/Kathmandu')))
    expect(form.get_by_label('Start')).to_have_accessible_name(
        'Start (Asia/Kathmandu; empty: now)'
    )
    with horizon.page.expect_response('**/api/nova/servers/'):
        horizon.button('Launch Instance').last.click()
    [request] = sent
    params = json.loads(request['scheduler_hints']['lease_params'])
    assert datetime.datetime.fromisoformat(params['start']) == start


def test_failed_launch_leaves_no_hints_for_the_next_one(show: Show, member: Person) -> None:
    horizon = show(member)
    sent = []

    def reject(route: Route) -> None:
        sent.append(route.request.post_data_json)
        route.fulfill(status=403, json='Quota exceeded')

    horizon.page.route('**/api/nova/servers/', reject)
    fill_in(horizon)
    reserve(horizon, after(hours=2))
    horizon.page.evaluate('window.marked = true')
    horizon.button('Launch Instance').last.click()
    # Horizon closes the form and loads the page of the servers, as after a success.
    horizon.page.wait_for_function('window.marked === undefined')
    fill_in(horizon)
    with horizon.page.expect_response('**/api/nova/servers/'):
        horizon.button('Launch Instance').last.click()
    first, second = (request['scheduler_hints'] for request in sent)
    assert (first['reserved'], second) == ('True', {})


def test_start_in_the_past_is_rejected_in_the_form(show: Show, member: Person) -> None:
    horizon = show(member)
    fill_in(horizon)
    form = reserve(horizon, after(hours=-2))
    expect(form.get_by_text('a time that is not in the past')).to_be_visible()
    expect(horizon.button('Launch Instance').last).to_be_disabled()
    form.get_by_text('Reserve this instance').click()
    expect(horizon.button('Launch Instance').last).to_be_enabled()
