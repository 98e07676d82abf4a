# SPDX-License-Identifier: Apache-2.0
"""Cinder's own fixtures, run by pytest.

``cinder.tests.unit`` has to be the first part of cinder that is imported, and it asks this
variable whether cinder runs in threads or in eventlet. Eventlet would patch what pytest and our
HTTP client have imported already.
"""

import os

os.environ['OS_CINDER_DISABLE_EVENTLET_PATCHING'] = 'true'

import cinder.tests.unit  # noqa: I001

# castellan registers another option of this one's name if it is used before
# (castellan/key_manager/migration.py), and then cinder's own key manager cannot be imported.
import cinder.keymgr.conf_key_mgr  # noqa: F401
