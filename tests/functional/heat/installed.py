# SPDX-License-Identifier: Apache-2.0
"""The extension as an operator installs it: lines of heat.conf, and one file beside heat's own."""

import atexit
import pathlib
import shutil
import sys
import tempfile

from oslo_config import cfg

import heat_ext

ROOT = pathlib.Path(heat_ext.__file__).parent
#: The wheel puts heat's files beside the interpreter.
ETC = pathlib.Path(sys.prefix, 'etc/heat')

_HERE = pathlib.Path(tempfile.mkdtemp(prefix='heat-environment-'))
atexit.register(shutil.rmtree, _HERE, ignore_errors=True)


def configure():
    """Write heat.conf: where the plugins are, and where the names."""
    for directory in (ETC / 'environment.d', ROOT / 'environment.d'):
        for file in directory.glob('*.yaml'):
            shutil.copy(file, _HERE)
    cfg.CONF.import_opt('plugin_dirs', 'heat.common.config')
    # Overrides are taken back after each test of heat; this stays.
    cfg.CONF.set_default('plugin_dirs', [str(ROOT / 'plugins')])
    # And heat's test case would have its own default.
    cfg.CONF.set_override('environment_dir', str(_HERE))
