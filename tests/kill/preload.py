# SPDX-License-Identifier: Apache-2.0
"""What the processes of a test have in common; they are forked from one that has imported this.

A manager imports its plugins and reads the migrations when it starts, and the fake cloud makes
a Placement for the first host: here once for all of them.
"""

import gc
import pathlib
import tempfile

from climate_core import conf as configuration
from climate_core.db import migration
from climate_core.plugins import loading
from tests.kill import start_manager
from tests.support.fakes import cloud_server, placement

__all__ = ('cloud_server', 'start_manager')

migration.head()
loading.load_classes(configuration.load([], []).manager.plugins)
with tempfile.TemporaryDirectory() as _directory:
    placement.Placement(pathlib.Path(_directory, 'placement.sqlite'))
# No collection of garbage looks at it, and so copies its pages, in any of them.
gc.freeze()
