# SPDX-License-Identifier: Apache-2.0
"""The translations: complete, and compiled. To bring them up to date: tools/translations.py."""

import re

import pytest

from tests.dashboard.pages import PageTest
from tools import translations

_PLACES = re.compile(r'%\(\w+\)[sd]|%[sd]')


def texts(value: object) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else (str(value),)


@pytest.mark.parametrize('language', translations.LANGUAGES)
def test_every_text_is_translated(language: str) -> None:
    kept = {
        (each.context, texts(each.id)[0]): each for each in translations.read(language) if each.id
    }
    found = {
        (each.context, texts(each.id)[0]) for each in translations.extracted(language) if each.id
    }
    assert kept.keys() == found
    for each in kept.values():
        for translated in texts(each.string):
            assert translated, each.id
            places = [sorted(_PLACES.findall(text)) for text in (texts(each.id)[-1], translated)]
            assert places[0] == places[1], each.id


@pytest.mark.parametrize('language', translations.LANGUAGES)
def test_translations_are_compiled(language: str) -> None:
    compiled = translations.path_of(language).with_suffix('.mo').read_bytes()
    assert compiled == translations.compiled(translations.read(language))


class GermanTest(PageTest):
    def test_pages_are_in_the_language_of_their_user(self) -> None:
        self.client_of_leases.calendar.bars.return_value = []
        self.client_of_leases.calendar.capacity.return_value = []
        self.client.cookies['django_language'] = 'de'
        text = self.text('horizon:project:climate_calendar:index')
        assert 'In dieser Zeit ist nichts reserviert.' in text
