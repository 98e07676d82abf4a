# SPDX-License-Identifier: Apache-2.0
"""Who may import whom: the map of the packages in the contributor's guide, checked.

An import inside of a function or under ``TYPE_CHECKING`` counts like any other: what a module
names is what it knows, whenever it is loaded. Packages of the map that do not exist yet have no
files.
"""

import ast
import functools
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

SERVICES = {
    'nova',
    'cinder',
    'heat',
    'horizon',
    'openstack_dashboard',
    'neutron',
    'placement',
    'keystone',
    'glance',
}
PACKAGES = {
    'climate_common': set(),
    'climate_core': {'climate_common'},
    'climate_hosts': {'climate_common', 'climate_core'},
    'climate_networks': {'climate_common', 'climate_core'},
    'climateclient': {'climate_common'},
    'nova_ext': {'climate_common', 'climateclient', 'nova'},
    'cinder_ext': {'climate_common', 'climateclient', 'cinder'},
    'heat_ext': {'climate_common', 'climateclient', 'heat'},
    'climate_dashboard': {'climate_common', 'climateclient', 'horizon', 'openstack_dashboard'},
}
#: The packages and root modules of climate_core, from top to bottom. Those of one row do not
#: import each other.
ROWS = (
    ('wsgi', 'cmd', 'opts'),
    ('service',),
    ('api',),
    ('rpc',),
    ('operations',),
    ('repair',),
    ('engine',),
    ('delivery',),
    ('plugins',),
    ('calendar',),
    ('cloud',),
    ('db',),
    ('notifications', 'policies', 'conf'),
    ('lease',),
    # Root modules that all may use.
    ('concurrency', 'webhooks'),
    ('context', 'exceptions', 'packages', 'process', 'test_hooks', 'threads'),
)
ROW = {name: number for number, row in enumerate(ROWS) for name in row}
#: What the pure domain must not import.
IMPURE = ('sqlalchemy', 'openstack', 'keystoneauth1', 'requests', 'oslo_messaging', 'oslo_db')
#: The modules of the calendar that read or write it, and those that take the rows of it.
CALENDAR_WITH_IO = {'calendar', 'index', 'series', 'transaction'}


def name_of(path: pathlib.Path) -> str:
    """Return the dotted name of a module; that of a package for its ``__init__``."""
    return '.'.join(path.relative_to(ROOT).with_suffix('').parts).removesuffix('.__init__')


MODULES = {name_of(path): path for each in PACKAGES for path in (ROOT / each).rglob('*.py')}


@functools.cache
def imports(module: str) -> frozenset[str]:
    """Return what a module imports: modules where they are ours, else dotted names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module, f'{module} has a relative import'
            for alias in node.names:
                full = f'{node.module}.{alias.name}'
                found.add(full if full in MODULES else node.module)
    return frozenset(found - {module})


def test_every_part_of_the_core_is_on_the_map() -> None:
    parts = {name.split('.')[1] for name in MODULES if name.startswith('climate_core.')}
    assert parts <= ROW.keys()


@pytest.mark.parametrize('package', PACKAGES)
def test_package_imports_only_what_it_may(package: str) -> None:
    forbidden = (PACKAGES.keys() | SERVICES) - PACKAGES[package] - {package}
    wrong = {
        (module, each)
        for module in MODULES
        if module.split('.')[0] == package
        for each in imports(module)
        if each.split('.')[0] in forbidden
    }
    assert not wrong


@pytest.mark.parametrize('part', ROW)
def test_part_of_the_core_imports_only_parts_below_it(part: str) -> None:
    wrong = {
        (module, each)
        for module in MODULES
        if module.split('.')[:2] == ['climate_core', part]
        for each in imports(module)
        if each.startswith('climate_core.')
        and each.split('.')[1] != part
        and ROW[each.split('.')[1]] <= ROW[part]
    }
    assert not wrong


def test_domain_imports_nothing_that_does_io() -> None:
    pure = (
        'climate_core.lease',
        'climate_core.plugins.forecast',
        'climate_core.plugins.server_placement',
        'climate_core.plugins.flavor_demand',
        'climate_common',
        'climate_hosts.blazar.plan',
        'climate_hosts.hosts',
        'climate_hosts.power.states',
        'climate_networks.units',
    )
    wrong = {
        (module, each)
        for module in MODULES
        if module.startswith(pure)
        for each in imports(module)
        if each.split('.')[0] in IMPURE
    }
    assert not wrong


def test_search_of_the_calendar_imports_nothing_that_does_io() -> None:
    """Those that read and write are known by name: a new module searches, and is pure."""
    wrong = {
        (module, each)
        for module in MODULES
        if module.startswith('climate_core.calendar.')
        and module.rpartition('.')[2] not in CALENDAR_WITH_IO
        for each in imports(module)
        if each.split('.')[0] in IMPURE or each.startswith('climate_core.db')
    }
    assert not wrong


def test_calendar_does_not_know_what_a_host_is() -> None:
    """What it promises has a kind and capacity; who promises it knows more."""
    wrong = {
        (module, each)
        for module in MODULES
        if module.startswith('climate_core.calendar.')
        for each in imports(module)
        if 'host' in each.rpartition('.')[2] or 'lanes' in each.rpartition('.')[2]
    }
    assert not wrong


def test_no_modules_import_each_other_in_a_circle() -> None:
    left = {module: imports(module) & MODULES.keys() for module in MODULES}
    # Take away what imports nothing that is left, until nothing can be taken away.
    while free := {module for module, needed in left.items() if not needed & left.keys()}:
        left = {module: needed for module, needed in left.items() if module not in free}
    assert not {module: sorted(needed & left.keys()) for module, needed in left.items()}


def names_a_type_of_event(node: ast.expr) -> bool:
    """Tell whether an expression, or one in it, is a text or a constant."""
    inner = node.elts if isinstance(node, ast.Tuple | ast.Set | ast.List) else [node]
    return any(
        (isinstance(each, ast.Constant) and isinstance(each.value, str))
        or (isinstance(each, ast.Name) and each.id.isupper())
        or (isinstance(each, ast.Attribute) and each.attr.isupper())
        for each in inner
    )


def compared_types(tree: ast.Module) -> list[int]:
    """Return the lines in which an ``event_type`` is compared with the type of some event."""
    compared = [each for each in ast.walk(tree) if isinstance(each, ast.Compare)]
    return [
        each.lineno
        for each in compared
        if any(ast.unparse(side).endswith('event_type') for side in (each.left, *each.comparators))
        and any(names_a_type_of_event(side) for side in (each.left, *each.comparators))
    ]


def test_comparisons_with_a_type_of_event_are_found() -> None:
    """What a query or a search is asked for by its caller is not one."""
    tree = ast.parse(
        "a = event.event_type == model.START\nb = event_type in (END, 'x')\n"
        'c = _EVENT.c.event_type == event_type\nd = e.event_type in wanted\n'
        "e = 'x' != each.event_type\n"
    )
    assert compared_types(tree) == [1, 2, 5]


def test_only_the_table_of_events_knows_what_is_done_for_which_type() -> None:
    table = (
        'climate_core.lease.events',
        'climate_core.lease.transitions',
        'climate_common.event_types',
    )
    wrong = {
        (module, line)
        for module, path in MODULES.items()
        if not module.startswith(table)
        for line in compared_types(ast.parse(path.read_text()))
    }
    assert not wrong
