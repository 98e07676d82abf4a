# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration."""

import pathlib
import sys

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / 'doc' / 'ext'))

project = 'Climate'
copyright = 'Climate developers'
extensions = [
    'openstackdocstheme',
    'oslo_config.sphinxext',
    'oslo_policy.sphinxext',
    'api_examples',
    'api_reference',
    'error_codes',
    'events',
    'notification_reference',
    'states',
]
html_theme = 'openstackdocs'
openstackdocs_auto_name = False
openstackdocs_auto_version = False
version = release = '1.0.0'
