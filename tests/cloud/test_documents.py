# SPDX-License-Identifier: Apache-2.0
"""The commands of the documents do what the pages say, typed by a member of a new project.

One page: ``python -m pytest tests/cloud/test_documents.py -k user/volumes``

With ``CLIMATE_PAGES=quarter`` the seed of the run chooses a quarter of the pages.
"""

import contextlib
import os
import pathlib
import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from tests.cloud.people import Person, member_of, wait_for
from tests.cloud.terminal import Terminal
from tests.support import console


@pytest.fixture(scope='session', autouse=True)
def _killed_runs(admin: Person) -> None:
    """Remove what runs on this machine left when they were killed."""
    if os.environ.get('PYTEST_XDIST_WORKER', 'gw0') != 'gw0':
        return
    for project in admin.sdk.identity.projects():
        found = re.fullmatch(r'documents-(\d+)-\w+', project.name)
        if found and not pathlib.Path('/proc', found[1]).exists():
            _empty(member_of(admin, project.name))
            _delete_project(admin, project.name)


@pytest.fixture
def reader(admin: Person) -> Iterator[Person]:
    """Return a member of a new project, which is deleted with all that is in it."""
    name = f'documents-{os.getpid()}-{uuid.uuid4().hex[:8]}'
    try:
        yield member_of(admin, name)
    finally:
        _delete_project(admin, name)


def _delete_project(admin: Person, name: str) -> None:
    """Delete what exists of an empty project and its user."""
    identity, network = admin.sdk.identity, admin.sdk.network
    if project := identity.find_project(name):
        for group in network.security_groups(project_id=project.id):
            network.delete_security_group(group)
        identity.delete_project(project)
    if user := identity.find_user(name):
        identity.delete_user(user)


def _empty(reader: Person) -> None:
    """End the leases of a project, then delete what is left; a failure stops no later step."""
    sdk, leases = reader.sdk, reader.leases
    storage, owner = sdk.block_storage, sdk.current_project_id
    steps: list[tuple[Callable[[], Iterable[Any]], Callable[[Any], Any]]] = [
        (leases.list, lambda lease: leases.delete(lease.id, ignore_missing=True)),
        (sdk.orchestration.stacks, sdk.orchestration.delete_stack),
        (sdk.compute.servers, sdk.compute.delete_server),
        (storage.snapshots, storage.delete_snapshot),
        (storage.volumes, storage.delete_volume),
        (lambda: sdk.image.images(owner=owner), sdk.image.delete_image),
        (lambda: sdk.network.ips(project_id=owner), sdk.network.delete_ip),
    ]
    with contextlib.ExitStack() as stack:
        for find, delete in reversed(steps):
            stack.callback(_delete_all, find, delete)


def _delete_all(find: Callable[[], Iterable[Any]], delete: Callable[[Any], Any]) -> None:
    for resource in find():
        delete(resource)
    wait_for(lambda: not [*find()], 'an empty project')


def _chosen_pages() -> list[str]:
    if os.environ.get('CLIMATE_PAGES') == 'quarter':
        return [*console.pages()][int(os.environ['SEED']) % 4 :: 4]
    return [*console.pages()]


@pytest.mark.parametrize('name', _chosen_pages())
def test_page(name: str, admin: Person, reader: Person, tmp_path: pathlib.Path) -> None:
    users = {'member': reader.environment, 'admin': admin.environment}
    terminal = Terminal(tmp_path, users, name)
    blocks = [block for block in console.parse(console.pages()[name]) if not block.reason]
    with terminal.open(), contextlib.ExitStack() as last:
        try:
            for block in blocks:
                if block.last:
                    last.callback(terminal.run, block)
                else:
                    terminal.run(block)
        finally:
            _empty(reader)


def test_terminal(admin: Person, tmp_path: pathlib.Path) -> None:
    """A page fails where a command fails or prints something else; a new shell runs the rest."""
    page = tmp_path / 'page.rst'
    page.write_text(PAGE)
    terminal = Terminal(tmp_path, {'member': admin.environment}, 'page')
    right, fails, wrong, broken, ends, after = console.parse(page)
    with terminal.open():
        terminal.run(right)
        terminal.run(fails)
        with pytest.raises(AssertionError, match='page:22: another output\n--- expected\n2'):
            terminal.run(wrong)
        with pytest.raises(AssertionError, match='page:27: exit status 2'):
            terminal.run(broken)
        with pytest.raises(AssertionError, match='page:30: exit status -1'):
            terminal.run(ends)
        terminal.run(after)


PAGE = r"""
.. code-block:: console

   $ id=$(openstack project show admin \
       -f value -c id)
   $ openstack project show $id -c name
   +-------+-------+
   | Field | Value |
   +-------+-------+
   | name  | admin |
   +-------+-------+

.. fails:

.. code-block:: console

   $ openstack lease show no-such-lease
   ...no-such-lease...

.. code-block:: console

   $ echo 1
   2

.. code-block:: console

   $ openstack lease list --no-such-option

.. run:

   false

.. code-block:: console

   $ openstack project show admin -f value -c name
   admin
"""
