# SPDX-License-Identifier: Apache-2.0
"""What the processes of the service do not import: it would take memory as long as they run.

openstacksdk takes 11 MiB, of which only oslo.limit makes use; Alembic 10 and eventlet 11 with what
they import; keystonemiddleware, in which the API checks tokens, 9, and WebOb, with which
it answers, 3; and Jinja2, with which the health check answers and a report is made that hardly
anybody asks for, 3.
"""

import pathlib

from tests.functional.api import world

NAMES = (
    "'openstack', 'alembic', 'mako', 'eventlet', 'dns', 'keystonemiddleware', 'webob', 'jinja2', "
    "'osprofiler'"
)
SHOW = f'import sys; print(*sorted({{{NAMES}}} & {{*sys.modules}}))'


def test_api_imports_neither_openstacksdk_nor_what_it_does_not_use(tmp_path: pathlib.Path) -> None:
    done = world.run(tmp_path, f'import climate_core.wsgi.api; {SHOW}')
    assert done.stdout.split() == ['jinja2', 'keystonemiddleware', 'webob'], done.stderr


def test_manager_imports_nothing_of_the_api_nor_what_it_does_not_use(
    tmp_path: pathlib.Path,
) -> None:
    done = world.run(tmp_path, f'{_started(tmp_path)}; {SHOW}')
    assert done.stdout.split() == [], done.stderr


def test_manager_asks_services_without_openstacksdk(tmp_path: pathlib.Path) -> None:
    asked = (
        'from climate_core import conf, exceptions\n'
        'from climate_core.cloud import Cloud, servers\n'
        f'loaded = conf.load(["--config-file", "{tmp_path}/climate.conf"], has_api=False)\n'
        'try: servers.check_all_visible(Cloud(loaded).service())\n'
        'except exceptions.Transient: print("asked")\n'
    )
    done = world.run(tmp_path, f'{_started(tmp_path)}\n{asked}{SHOW}')
    assert done.stdout.split() == ['asked'], done.stderr


def _started(directory: pathlib.Path) -> str:
    """Return a program that does what the manager does until it is ready."""
    return (
        'from climate_core.cmd import manager; manager._run = lambda _manager: 0; '
        f'manager.main(["--config-file", "{directory}/climate.conf"])'
    )
