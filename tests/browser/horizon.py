# SPDX-License-Identifier: Apache-2.0
"""Horizon of the local cloud in a browser, as one user sees it."""

import datetime
import os
import pathlib
import re
from typing import Any, Final, Protocol
from urllib import parse

from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser import axe
from tests.cloud.people import STATE, Person, environment

#: Where pictures of pages are kept.
PICTURES: Final = pathlib.Path(os.environ.get('REPORTS', STATE / 'reports')) / 'browser'
LEASES, CREATE, CALENDAR, INSTANCES = (
    'project/climate_leases/',
    'project/climate_leases/create/',
    'project/climate_calendar/',
    'project/instances/',
)
HOSTS, HOST_CALENDAR, QUEUE, USAGE = (
    'admin/climate_hosts/',
    'admin/climate_host_calendar/',
    'admin/climate_queue/',
    'admin/climate_usage/',
)
#: Milliseconds that the cloud may take for one thing: other work may keep the machine busy.
PATIENCE: Final = 60_000
expect.set_options(timeout=PATIENCE)
WIDTH, HEIGHT = 1280, 800
#: Schemes of what is asked of a server.
_REMOTE: Final = frozenset({'http', 'https', 'ws', 'wss'})
#: What is Horizon's own in our pages, by its templates and scripts: menus of rows, the column of
#: boxes, the filter of a table, the buttons beside numbers; and buttons that cannot be pressed.
_OF_HORIZON: Final = (
    '.btn.disabled',
    '.dropdown-toggle',
    '.multi_select_column',
    '.table_search',
    '.themable-spinner-btn',
)


def address() -> str:
    """Return the address of Horizon: of this environment, or of the cloud; fail if it has none."""
    variables = {**environment('admin'), **os.environ}
    assert 'CLIMATE_CLOUD_HORIZON_URL' in variables, (
        'the cloud must be up with Horizon: CLIMATE_CLOUD_HORIZON=1 devstack/local/cloud up'
    )
    return variables['CLIMATE_CLOUD_HORIZON_URL']


def picked(time: datetime.datetime) -> str:
    """Return a time as a picker has it."""
    return f'{time:%Y-%m-%dT%H:%M}'


def log_in(browser: Browser, person: Person) -> Any:
    """Log a user in by Horizon's form; return the state of the browser after that."""
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(address())
    page.get_by_label('User Name').fill(person.environment['OS_USERNAME'])
    page.get_by_label('Password').fill(person.environment['OS_PASSWORD'])
    page.get_by_role('button', name='Sign In').click()
    expect(page).to_have_title(re.compile('^Overview'))
    state = page.context.storage_state()
    page.context.close()
    return state


def _named(name: str) -> re.Pattern[str]:
    # The picture before it is a letter of a font.
    return re.compile(rf'^\W*{re.escape(name)}$')


class Horizon:
    """The page that one user looks at.

    :param state: of a browser in which the user is logged in
    :ivar troubles: errors of scripts and of the server, and what was asked of other servers
    """

    def __init__(self, browser: Browser, state: Any) -> None:
        self._url = address()
        size: Any = {'width': WIDTH, 'height': HEIGHT}
        self._context = browser.new_context(storage_state=state, viewport=size)
        self._context.set_default_timeout(PATIENCE)
        # Without a namespace of properties in Glance Horizon's launch form gets an error 500.
        self._context.route(
            '**/api/glance/metadefs/**', lambda route: route.fulfill(json={'items': []})
        )
        self.page: Page = self._context.new_page()
        self.troubles: list[str] = []
        self.page.on('pageerror', lambda error: self.troubles.append(f'script: {error}'))
        self.page.on('request', self._on_request)
        self.page.on('response', self._on_response)

    def _on_request(self, request: Any) -> None:
        """Note what is asked of another server, also if that does not answer."""
        asked = parse.urlsplit(request.url)
        if asked.scheme in _REMOTE and asked.hostname != parse.urlsplit(self._url).hostname:
            self.troubles.append(f'from elsewhere: {request.url}')

    def _on_response(self, response: Any) -> None:
        if response.status >= 500:
            self.troubles.append(f'{response.status} {response.url}')

    def close(self) -> None:
        self._context.close()

    def open(self, path: str) -> None:
        """Go to a page by its path."""
        self.page.goto(self._url + path)

    def resize(self, width: int) -> None:
        self.page.set_viewport_size({'width': width, 'height': HEIGHT})

    def keep(self, name: str, height: int = HEIGHT) -> None:
        """Keep a picture of what is seen, or its upper part, among the files of the run."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        part: Any = {'x': 0, 'y': 0, **(self.page.viewport_size or {}), 'height': height}
        # Not while a window still opens.
        self.page.screenshot(path=PICTURES / f'{name}.png', animations='disabled', clip=part)

    def keep_failure(self, name: str) -> None:
        """Keep a picture of the whole page, and its text."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        name = f'failed-{re.sub("[^a-z0-9_]+", "-", name)}'
        self.page.screenshot(path=PICTURES / f'{name}.png', full_page=True)
        (PICTURES / f'{name}.html').write_text(self.page.content(), encoding='utf-8')

    # The parts of a page

    def button(self, name: str) -> Locator:
        return self.page.get_by_role('button', name=_named(name))

    def link(self, name: str) -> Locator:
        return self.page.get_by_role('link', name=_named(name))

    def row(self, text: str) -> Locator:
        """Return the row of a table that has a text."""
        return self.page.locator('table.datatable tbody tr').filter(has_text=text)

    def messages(self) -> Locator:
        """Return the messages of the page."""
        return self.page.locator('.alert')

    def window(self) -> Locator:
        """Return the window in the page."""
        return self.page.locator('.modal.in')

    def bar(self, name: str) -> Locator:
        """Return the bars of a lease in a calendar."""
        return self.page.locator(f'.climate-bar[aria-label^="{name},"]')

    def choose(self, label: str, option: str) -> None:
        """Choose an option in a field that Horizon's script draws."""
        group = self.page.locator('.form-group').filter(
            has=self.page.locator('label', has_text=re.compile(rf'^\s*{re.escape(label)}\b'))
        )
        group.locator('.dropdown-toggle').click()
        group.locator('.dropdown-menu').get_by_text(option, exact=True).click()

    def expect_form(self, start: str, end: str) -> None:
        """Expect the form of a lease with times that have these texts."""
        expect(self.page.get_by_label('Name', exact=True)).to_be_visible()
        for label, time in (('Start (UTC)', start), ('End (UTC)', end)):
            expect(self.page.get_by_label(label, exact=True)).to_have_value(re.compile(time))

    def fill_in_lease(self, name: str, duration: str = '4h') -> None:
        """Fill in the form of a lease of one host."""
        self.page.get_by_label('Name', exact=True).fill(name)
        self.page.get_by_label('Duration').fill(duration)
        self.choose('What to reserve', 'Whole hosts')

    def create_lease(self, name: str) -> None:
        """Create the lease of the form, which starts later."""
        self.button('Create Lease').click()
        expect(self.row(name)).to_contain_text('Pending')

    def act(self, row: Locator, action: str) -> None:
        """Choose an action in the menu of a row."""
        row.locator('.dropdown-toggle').click()
        row.locator('.dropdown-menu').get_by_text(action, exact=True).click()

    def confirm(self, action: str) -> None:
        """Confirm what Horizon asks back."""
        self.window().get_by_text(action, exact=True).last.click()

    def flaws(self, within: str) -> list[str]:
        """Return what hinders users with disabilities in a part of the page."""
        found = axe.look(self.page, within, _OF_HORIZON)
        return [f'{rule}: {node["html"]} {node["failureSummary"]}' for rule, node in found]


class Show(Protocol):
    """Open Horizon as a user sees it, at a page if its path is given."""

    def __call__(self, person: Person, path: str | None = None) -> Horizon: ...
