# SPDX-License-Identifier: Apache-2.0
"""axe-core, which finds what hinders users with disabilities: one file of npm's package.

It is downloaded once, and kept in the directory of the cloud. npm itself is not needed; where it
is installed, its registry is asked.
"""

import base64
import functools
import hashlib
import io
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
from typing import Any, Final

import requests
from playwright.sync_api import Page

from tests.cloud.people import STATE

VERSION: Final = '4.12.1'
#: Of the package, as the registry has it.
SHA512: Final = (
    's7iGf5GaVMxEG0ENN9x+xTr7GFZCb1ZP/1uATUpCEK2X78nDB3RwbtFCo9pGAf9ru+VwoQ464DkaLEeRM08wJA=='
)
_REGISTRY: Final = 'https://registry.npmjs.org/'
_FILE: Final = 'package/axe.min.js'
_CONTRAST: Final = 'color-contrast'
#: The least contrast between a text and what is behind it.
ENOUGH: Final = 4.5
#: The contrast of an element: its colour, and the colours of what it is in, down to the first that
#: nothing shines through, or the white of the page. Of several, as of a hatched one, the worst
#: counts. What one shows through the other is mixed as CSS does it.
_MEASURE: Final = """selector => {
    const read = text => (text.match(/rgba?\\([^)]*\\)/g) || []).map(each => {
        const [r, g, b, alpha = 1] = each.match(/[\\d.]+/g).map(Number);
        return {rgb: [r, g, b], alpha};
    });
    const over = (colour, below) =>
        colour.rgb.map((each, n) => each * colour.alpha + below[n] * (1 - colour.alpha));
    const part = each => each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4;
    const light = colour => {
        const [r, g, b] = colour.map(each => part(each / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const element = document.querySelector(selector);
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
        const style = getComputedStyle(each);
        const image = read(style.backgroundImage), plain = read(style.backgroundColor);
        layers.push(...[image, plain].filter(colours => colours.length));
        if ([image, plain].some(some => some.length && some.every(one => one.alpha === 1))) break;
    }
    const behind = layers.reverse().reduce(
        (below, layer) => below.flatMap(each => layer.map(colour => over(colour, each))),
        [[255, 255, 255]]);
    const [own] = read(getComputedStyle(element).color);
    return Math.min(...behind.map(each => {
        const [dark, bright] = [light(over(own, each)), light(each)].sort((a, b) => a - b);
        return (bright + 0.05) / (dark + 0.05);
    }));
}"""
_RUN: Final = 'context => axe.run(context, {resultTypes: ["violations", "incomplete"]})'


@functools.cache
def script() -> str:
    """Return the script; download it if it is not there.

    :raises AssertionError: what is downloaded is something else
    """
    kept = STATE / f'axe-core-{VERSION}.tgz'
    if not kept.exists():
        address = f'{_registry().rstrip("/")}/axe-core/-/axe-core-{VERSION}.tgz'
        answer = requests.get(address, timeout=60)
        answer.raise_for_status()
        _keep(kept, answer.content)
    package = kept.read_bytes()
    found = base64.b64encode(hashlib.sha512(package).digest()).decode()
    if found != SHA512:
        kept.unlink(missing_ok=True)
        raise AssertionError(f'axe-core {VERSION} has the checksum {found}, not {SHA512}')
    with tarfile.open(fileobj=io.BytesIO(package)) as files:
        text = files.extractfile(_FILE)
        assert text is not None
        return text.read().decode()


def _keep(path: pathlib.Path, content: bytes) -> None:
    """Write a file so that whoever runs at the same time sees all of it, or nothing."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as new:
        new.write(content)
    os.replace(new.name, path)


def _registry() -> str:
    if shutil.which('npm') is None:
        return _REGISTRY
    command = ['npm', 'config', 'get', 'registry']
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def contrast(page: Page, selector: str) -> float:
    """Return the least contrast of the text of an element with what is behind it."""
    return float(page.evaluate(_MEASURE, selector))


def look(page: Page, include: str, exclude: tuple[str, ...]) -> list[tuple[str, Any]]:
    """Look at a part of a page.

    :param exclude: what of it is left out
    :returns: what is wrong, and what may be: rules, each with an element that breaks it
    """
    if not page.evaluate('typeof axe === "object"'):
        page.evaluate(script())
    context = {'include': [include], 'exclude': [[each] for each in exclude]}
    found = page.evaluate(_RUN, context)
    flaws = [
        (each['id'], node)
        for each in (*found['violations'], *found['incomplete'])
        for node in each['nodes']
    ]
    # Where something lies on something else axe-core does not know the colours, and we do.
    known = [
        node for each in found['incomplete'] if each['id'] == _CONTRAST for node in each['nodes']
    ]
    right = [node for node in known if contrast(page, node['target'][0]) >= ENOUGH]
    return [(rule, node) for rule, node in flaws if node not in right]
