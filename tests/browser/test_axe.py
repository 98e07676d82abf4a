# SPDX-License-Identifier: Apache-2.0
"""How the contrast of texts is measured, and axe-core is kept. Needs no cloud."""

import os
import pathlib
from unittest import mock

import pytest
from playwright.sync_api import Browser

from tests.browser import axe

BLACK, WHITE, HALF = 'rgb(0, 0, 0)', 'rgb(255, 255, 255)', 'rgba(0, 0, 0, 0.5)'


@pytest.mark.parametrize(
    ('outer', 'inner', 'text', 'ratio'),
    [
        ('', '', 'black', 21.0),
        ('', f'background: {WHITE}', 'rgb(118, 118, 118)', 4.54),
        # A text that what is behind it shines through.
        ('', '', HALF, 3.98),
        ('', f'background: {BLACK}', HALF, 1.0),
        # What is behind it shows what is behind that.
        ('', f'background: {HALF}', 'black', 5.28),
        (f'background: {BLACK}', f'background: {HALF}', 'white', 21.0),
        (f'background: {HALF}', f'background: {HALF}', 'white', 10.41),
        (f'background: {BLACK}', 'background: transparent', 'black', 1.0),
        # The worse one of a hatched bar, also where it is clear.
        ('', f'background: linear-gradient({BLACK}, {WHITE})', 'white', 1.0),
        (f'background: {BLACK}', f'background: linear-gradient({HALF}, {WHITE})', 'black', 1.0),
        ('', f'background: linear-gradient(transparent, {BLACK}) {BLACK}', 'white', 21.0),
    ],
)
def test_contrast_of_a_text_with_all_that_is_behind_it(
    browser: Browser, outer: str, inner: str, text: str, ratio: float
) -> None:
    page = browser.new_page()
    page.set_content(
        f'<div style="{outer}"><p style="{inner}; color: {text}" id="it">Text</p></div>'
    )
    assert axe.contrast(page, '#it') == pytest.approx(ratio, abs=0.01)
    page.close()


def test_package_is_never_seen_half_written(tmp_path: pathlib.Path) -> None:
    kept, seen = tmp_path / 'axe.tgz', []
    replace = os.replace

    def look(new: str, path: pathlib.Path) -> None:
        seen.append((path.exists(), pathlib.Path(new).read_bytes()))
        replace(new, path)

    with mock.patch.object(os, 'replace', look):
        axe._keep(kept, b'all of it')
    assert seen == [(False, b'all of it')]
    assert [kept.read_bytes()] == [each.read_bytes() for each in tmp_path.iterdir()]
