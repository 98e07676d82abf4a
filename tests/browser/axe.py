# SPDX-License-Identifier: Apache-2.0
"""axe-core, which finds what hinders users with disabilities: one file of npm's package.

It is downloaded once, and kept in the directory of the cloud. npm itself is not needed; where it
is installed, its registry is asked.
"""

import base64
import functools
import hashlib
import io
import shutil
import subprocess
import tarfile
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
#: The contrast of an element: its colour, and the nearest colours of what it is in. Of a hatched
#: one the worse counts.
_MEASURE: Final = """selector => {
    const read = text => (text.match(/rgba?\\([^)]*\\)/g) || [])
        .map(each => each.match(/[\\d.]+/g).map(Number))
        .filter(each => each.length < 4 || each[3] > 0);
    const part = each => each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4;
    const light = colour => {
        const [r, g, b] = colour.slice(0, 3).map(each => part(each / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const element = document.querySelector(selector);
    let behind = [];
    for (let each = element; each && !behind.length; each = each.parentElement) {
        const style = getComputedStyle(each);
        behind = [...read(style.backgroundImage), ...read(style.backgroundColor)];
    }
    const own = light(read(getComputedStyle(element).color)[0]);
    const others = behind.length ? behind.map(light) : [1];
    return Math.min(...others.map(
        each => (Math.max(each, own) + 0.05) / (Math.min(each, own) + 0.05)));
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
        kept.write_bytes(answer.content)
    package = kept.read_bytes()
    found = base64.b64encode(hashlib.sha512(package).digest()).decode()
    if found != SHA512:
        kept.unlink()
        raise AssertionError(f'axe-core {VERSION} has the checksum {found}, not {SHA512}')
    with tarfile.open(fileobj=io.BytesIO(package)) as files:
        text = files.extractfile(_FILE)
        assert text is not None
        return text.read().decode()


def _registry() -> str:
    if shutil.which('npm') is None:
        return _REGISTRY
    command = ['npm', 'config', 'get', 'registry']
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


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
    right = [node for node in known if page.evaluate(_MEASURE, node['target'][0]) >= ENOUGH]
    return [(rule, node) for rule, node in flaws if node not in right]
