# SPDX-License-Identifier: Apache-2.0
"""The API for a WSGI server: ``climate_core.wsgi.api:application``.

The configuration files are those in ``OS_CLIMATE_CONFIG_FILES``, separated by ``;``. Default:
/etc/climate/climate.conf.
"""

import gc
import os
from typing import Any

from climate_core import process

with process.skip_unneeded_imports():
    from oslo_log import log

    from climate_core import conf as configuration
    from climate_core.api import app


def _build() -> Any:
    files = [name for name in os.environ.get('OS_CLIMATE_CONFIG_FILES', '').split(';') if name]
    conf = configuration.load(config_files=files or None)
    log.setup(conf, configuration.PROJECT)
    process.report_on_signal(conf)
    loaded = app.load_application(conf)
    # The loaded modules stay: their garbage collection was a quarter of the cost of a list.
    gc.collect()
    gc.freeze()
    return loaded


application = _build()
