# SPDX-License-Identifier: Apache-2.0
"""The pictures of the documents are those that the script draws."""

import importlib
import pathlib
import xml.etree.ElementTree as ET

import pytest

DOC = pathlib.Path(__file__).parents[2] / 'doc'
NAMES = ('architecture', 'calendar', 'event', 'lane', 'power', 'server', 'stack')


@pytest.fixture
def draw(monkeypatch):
    monkeypatch.syspath_prepend(DOC / 'pictures')
    return importlib.import_module('draw')


def test_every_picture_is_drawn(draw):
    assert sorted(draw.PICTURES) == list(NAMES)
    assert sorted(path.stem for path in draw.PLACE.glob('*.svg')) == list(NAMES)


@pytest.mark.parametrize('name', NAMES)
def test_the_file_is_what_the_script_draws(draw, name):
    text = (draw.PLACE / f'{name}.svg').read_text(encoding='utf-8')
    assert text == draw.PICTURES[name]().svg()


@pytest.mark.parametrize('name', NAMES)
def test_no_word_is_outside_of_the_picture(name):
    root = ET.parse(DOC / 'source' / 'pictures' / f'{name}.svg').getroot()
    width, height = float(root.get('width')), float(root.get('height'))
    for text in root.iter('{http://www.w3.org/2000/svg}text'):
        # A letter is about 0.6 of its size wide.
        length = len(text.text) * 0.6 * float(text.get('font-size', 14))
        left = (
            float(text.get('x'))
            - {'start': 0, 'middle': 0.5, 'end': 1}[text.get('text-anchor')] * length
        )
        assert left >= 0, text.text
        assert left + length <= width, text.text
        assert 0 < float(text.get('y')) < height
