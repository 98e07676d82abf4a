# SPDX-License-Identifier: Apache-2.0
"""Import what every ``openstack`` command needs; see :mod:`tests.cloud.scripts`."""

import gc
import importlib
import importlib.metadata
import sys

from keystoneauth1 import loading

from tests.cloud import scripts

#: cliff takes the name of the program from here when it is imported.
sys.argv[:1] = ['openstack']
_cliff = importlib.import_module('cliff.commandmanager')
for _name in ('openstackclient.shell', 'openstack.connection', 'climateclient.osc.plugin'):
    importlib.import_module(_name)
loading.get_available_plugin_loaders()
# Import all commands.
for _group in importlib.metadata.entry_points().groups:
    if _group.startswith('openstack.'):
        _cliff.CommandManager(_group)
# The first parser reads the metadata of all packages.
importlib.import_module('openstackclient.common.module').ListCommand(None, None).get_parser('')
scripts.entry_points()
# Garbage collection in a fork would copy the shared pages.
gc.freeze()
