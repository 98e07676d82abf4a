# SPDX-License-Identifier: Apache-2.0
"""What the processes of the service do not import: it would take memory as long as they run.

openstacksdk takes 12 MiB, for connections that the API does not make; Alembic 10 and eventlet 11
with what they import; keystonemiddleware, in which the API checks tokens, 9, and WebOb, with which
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
    started = (
        'from climate_core.cmd import manager; manager._run = lambda _manager: 0; '
        f'manager.main(["--config-file", "{tmp_path}/climate.conf"])'
    )
    done = world.run(tmp_path, f'{started}; {SHOW}')
    assert done.stdout.split() == [], done.stderr
