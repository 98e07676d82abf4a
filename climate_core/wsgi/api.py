# SPDX-License-Identifier: Apache-2.0
"""The API for a WSGI server: ``climate_core.wsgi.api:application``.

The configuration is what ``OS_CLIMATE_CONFIG_FILES`` names, separated by ``;``, or else
/etc/climate/climate.conf.
"""

import gc
import os
from typing import Any

from climate_core import process

with process.skip_unneeded_imports():
    from oslo_log import log

    from climate_core import conf as configuration
    from climate_core.api import deploy


def _build() -> Any:
    files = [name for name in os.environ.get('OS_CLIMATE_CONFIG_FILES', '').split(';') if name]
    conf = configuration.load(config_files=files or None)
    log.setup(conf, configuration.PROJECT)
    process.report_on_signal(conf)
    loaded = deploy.load_application(conf)
    # What was loaded stays: looking through it for garbage was a quarter of what a list costs.
    gc.collect()
    gc.freeze()
    return loaded


application = _build()
