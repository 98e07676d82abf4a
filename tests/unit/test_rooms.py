# SPDX-License-Identifier: Apache-2.0
"""Who may import whom: the map of the folders in the contributor's guide, checked."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

SERVICES = {'nova', 'cinder', 'heat'}
EXTENSIONS = {'nova_ext', 'cinder_ext', 'heat_ext'}

#: What a package must never import.
FOREIGN = {
    'climate_common': SERVICES | EXTENSIONS | {'climate_core', 'climateclient'},
    'climate_core': SERVICES | EXTENSIONS | {'climateclient'},
    'climateclient': SERVICES | EXTENSIONS | {'climate_core'},
    'nova_ext': (SERVICES | EXTENSIONS | {'climate_core'}) - {'nova', 'nova_ext'},
    'cinder_ext': (SERVICES | EXTENSIONS | {'climate_core'}) - {'cinder', 'cinder_ext'},
    'heat_ext': (SERVICES | EXTENSIONS | {'climate_core'}) - {'heat', 'heat_ext'},
}
#: From top to bottom. ``lease`` is pure and may be imported by all; it imports none of them.
ROOMS = ('cmd', 'wsgi', 'api', 'manager', 'engine', 'plugins', 'cloud', 'db')


def imports(path: pathlib.Path) -> set[str]:
    """Every module that a file imports, wherever in it, but not for type checking only."""
    found: set[str] = set()
    tree = ast.parse(path.read_text())
    checks = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == 'TYPE_CHECKING'
    ]
    for_types = {inner for check in checks for inner in ast.walk(check)}
    for node in ast.walk(tree):
        if node in for_types:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f'{node.module}.{alias.name}' for alias in node.names}
    return found


@pytest.mark.parametrize('package', FOREIGN)
def test_package_imports_nothing_foreign(package: str) -> None:
    for path in (ROOT / package).rglob('*.py'):
        tops = {name.split('.')[0] for name in imports(path)}
        assert not tops & FOREIGN[package], path


@pytest.mark.parametrize('room', ROOMS)
def test_room_imports_no_room_above_it(room: str) -> None:
    above = ROOMS[: ROOMS.index(room)]
    for path in (ROOT / 'climate_core' / room).rglob('*.py'):
        for name in imports(path):
            parts = name.split('.')
            assert not (parts[0] == 'climate_core' and parts[1:2] and parts[1] in above), (
                path,
                name,
            )


def test_lease_is_pure() -> None:
    for path in (ROOT / 'climate_core' / 'lease').rglob('*.py'):
        for name in imports(path):
            assert not name.startswith(tuple(f'climate_core.{room}' for room in ROOMS)), path
            assert not name.startswith(('sqlalchemy', 'openstack', 'oslo_messaging')), path
