# SPDX-License-Identifier: Apache-2.0
"""The commands of the documents do what the pages say, typed by a member of a new project.

One page: ``python -m pytest tests/cloud/test_documents.py -k user/volumes``
"""

import pathlib
import uuid
from collections.abc import Iterator

import pytest

from tests.cloud.people import Person, member_of, wait_for
from tests.cloud.terminal import Terminal
from tests.support import console


@pytest.fixture
def reader(admin: Person) -> Iterator[Person]:
    """Return a member of a new project, which is deleted with all that is in it."""
    name = f'documents-{uuid.uuid4().hex[:8]}'
    reader = member_of(admin, name)
    try:
        yield reader
    finally:
        identity = admin.sdk.identity
        project = identity.find_project(name)
        for group in admin.sdk.network.security_groups(project_id=project.id):
            admin.sdk.network.delete_security_group(group)
        identity.delete_user(identity.find_user(name))
        identity.delete_project(project)


def _empty(reader: Person) -> None:
    """End the leases of a project, then delete what is left of their resources."""
    for lease in reader.leases.list():
        reader.leases.delete(lease.id, ignore_missing=True)
        reader.wait_lease_gone(lease.id)
    sdk = reader.sdk
    for stack in sdk.orchestration.stacks():
        sdk.orchestration.delete_stack(stack)
    wait_for(lambda: not [*sdk.orchestration.stacks()], 'no stack')
    for server in sdk.compute.servers():
        sdk.compute.delete_server(server)
    wait_for(lambda: not [*sdk.compute.servers()], 'no server')
    for snapshot in sdk.block_storage.snapshots():
        sdk.block_storage.delete_snapshot(snapshot)
    wait_for(lambda: not [*sdk.block_storage.snapshots()], 'no snapshot')
    for volume in sdk.block_storage.volumes():
        sdk.block_storage.delete_volume(volume)
    wait_for(lambda: not [*sdk.block_storage.volumes()], 'no volume')
    for image in sdk.image.images(owner=sdk.current_project_id):
        sdk.image.delete_image(image)
    for address in sdk.network.ips(project_id=sdk.current_project_id):
        sdk.network.delete_ip(address)


@pytest.mark.parametrize('name', [name for name in console.pages() if name not in console.OLD])
def test_page(name: str, admin: Person, reader: Person, tmp_path: pathlib.Path) -> None:
    users = {'member': reader.environment, 'admin': admin.environment}
    terminal = Terminal(tmp_path, users, name)
    blocks = [block for block in console.parse(console.pages()[name]) if not block.reason]
    last = []
    with terminal.open():
        try:
            for block in blocks:
                if block.last:
                    last.append(block)
                else:
                    terminal.run(block)
        finally:
            _empty(reader)
            for block in reversed(last):
                terminal.run(block)


def test_terminal(admin: Person, tmp_path: pathlib.Path) -> None:
    """A page fails where a command fails or prints something else."""
    page = tmp_path / 'page.rst'
    page.write_text(PAGE)
    terminal = Terminal(tmp_path, {'member': admin.environment}, 'page')
    right, fails, wrong, broken = console.parse(page)
    with terminal.open():
        terminal.run(right)
        terminal.run(fails)
        with pytest.raises(AssertionError, match='page:22: another output\n--- expected\n2'):
            terminal.run(wrong)
        with pytest.raises(AssertionError, match='page:27: exit status 2'):
            terminal.run(broken)


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
"""
