# SPDX-License-Identifier: Apache-2.0
"""Nova's own functional fixtures, run by pytest.

``nova.tests.functional`` has to be the first part of nova that is imported, and it asks this
variable whether nova runs in threads, as the services of nova 34 do, or in eventlet.
"""

import os

os.environ['OS_NOVA_DISABLE_EVENTLET_PATCHING'] = 'true'

import nova.tests.functional  # noqa: F401
