# SPDX-License-Identifier: Apache-2.0
"""Nova's own functional fixtures, run by pytest.

``nova.tests.functional`` has to be the first part of nova that is imported, and it asks this
variable whether nova runs in threads, as the services of nova 34 do, or in eventlet.
"""

import os

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
