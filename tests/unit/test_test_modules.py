# SPDX-License-Identifier: Apache-2.0
"""The modules of the tests: none imports another.

What several test modules need is in a module without tests.
"""

import ast
import pathlib
from collections.abc import Iterator

TESTS = pathlib.Path(__file__).parents[1]


def imported(path: pathlib.Path) -> Iterator[str]:
    """Yield the full names that a module imports, inside of functions, too."""
    for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f'{node.module}.{each.name}' for each in node.names)


def is_test_module(name: str) -> bool:
    """Tell whether a full name is that of a test module, or of something in one."""
    path = TESTS.parent
    for word in name.split('.'):
        path /= word
        if word.startswith('test_') and path.with_suffix('.py').exists():
            return True
    return False


def test_no_test_module_imports_another() -> None:
    found = [
        f'{path.relative_to(TESTS)}: {name}'
        for path in sorted(TESTS.rglob('*.py'))
        for name in imported(path)
        if name.startswith('tests.') and is_test_module(name)
    ]
    assert not found, '\n'.join(found)


def test_what_a_function_imports_is_read(tmp_path: pathlib.Path) -> None:
    module = tmp_path / 'module.py'
    module.write_text('import a.b\ndef f():\n    from tests.unit import test_test_modules as t\n')
    assert [*imported(module)] == ['a.b', 'tests.unit.test_test_modules']
    assert is_test_module('tests.unit.test_test_modules.TESTS')
    assert not is_test_module('tests.unit.engine.world.test_time')
