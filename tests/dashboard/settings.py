# SPDX-License-Identifier: Apache-2.0
"""Settings of Horizon's own tests, with the panels and the policies of the dashboard."""

import pathlib

import openstack_dashboard.enabled

import climate_dashboard.enabled
from climate_dashboard import policy_files

openstack_dashboard.enabled.__path__.extend(climate_dashboard.enabled.__path__)

from openstack_dashboard.test.settings import *  # noqa: E402, F403

# Horizon judges none of its own rules in its tests; ours are judged.
POLICY_CHECK_FUNCTION = 'openstack_auth.policy.check'
POLICY_FILES: dict[str, str] = {}
DEFAULT_POLICY_FILES: dict[str, str] = {}
policy_files.add(POLICY_FILES, DEFAULT_POLICY_FILES)
LANGUAGE_CODE = 'en'
TIME_ZONE = 'UTC'
# Pages need no style sheets to be compiled.
COMPRESS_ENABLED = False
COMPRESS_PRECOMPILERS = ()
TEMPLATES[0]['DIRS'].insert(0, str(pathlib.Path(__file__).parent / 'templates'))  # noqa: F405
