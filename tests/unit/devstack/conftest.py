# SPDX-License-Identifier: Apache-2.0
"""The local cloud's own code is no installed package: put it on the path."""

import pathlib
import sys

LOCAL = pathlib.Path(__file__).resolve().parents[3] / 'devstack' / 'local'
sys.path.insert(0, str(LOCAL))
