# SPDX-License-Identifier: Apache-2.0
"""What the ``openstack`` command imports whatever it is told; see :mod:`tests.cloud.scripts`."""

import gc
import importlib
import sys

from keystoneauth1 import loading

#: cliff takes the name of the program from here when it is imported.
sys.argv[:1] = ['openstack']
for _name in ('openstackclient.shell', 'openstack.connection', 'climateclient.osc.plugin'):
    importlib.import_module(_name)
loading.get_available_plugin_loaders()
importlib.import_module('cliff.commandmanager').CommandManager('openstack.cli')
# No collection of garbage looks at it, and so copies its pages, in any of them.
gc.freeze()
