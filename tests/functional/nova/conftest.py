# SPDX-License-Identifier: Apache-2.0
"""Nova's own functional fixtures, run by pytest.

``nova.tests.functional`` has to be the first part of nova that is imported, and it asks this
variable whether nova runs in threads, as the services of nova 34 do, or in eventlet.
"""

import os
from typing import Any

os.environ['OS_NOVA_DISABLE_EVENTLET_PATCHING'] = 'true'

import nova.tests.functional  # noqa: F401
from nova import thread_pool_factory

from tests.functional import messages, schemas
from tests.functional.nova import databases, routers, threads

databases.copy()
messages.notice()
threads.sleep()
schemas.check_once()
routers.make_later()

# A service stops in a thread, which nova's fixture does not wait for: on a busy machine it comes
# to its end after the test, and would close the thread pools of the process for all others.
thread_pool_factory.shutdown_all_executors = lambda: None


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """With ``CLIMATE_NOVA=half`` keep half of the tests, which the seed of the run chooses.

    Nova itself takes most of their time, a quarter of that of a whole run.
    """
    if os.environ.get('CLIMATE_NOVA') == 'half':
        chosen = {*sorted(each.nodeid for each in items)[int(os.environ['SEED']) % 2 :: 2]}
        config.hook.pytest_deselected(items=[each for each in items if each.nodeid not in chosen])
        items[:] = [each for each in items if each.nodeid in chosen]
