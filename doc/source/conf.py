# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration."""

import pathlib
import sys

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / 'doc' / 'ext'))

project = 'Climate'
copyright = 'Climate developers'
extensions = [
    'cliff.sphinxext',
    'openstackdocstheme',
    'oslo_config.sphinxconfiggen',
    'oslo_config.sphinxext',
    'oslo_policy.sphinxext',
    'oslo_policy.sphinxpolicygen',
    'reno.sphinxext',
    'sphinx_design',
    'api_examples',
    'api_reference',
    'error_codes',
    'events',
    'notification_reference',
    'programs',
    'states',
]
autoprogram_cliff_application = 'openstack'
autoprogram_cliff_app_dist_name = 'openstack-climate'
# Every command of openstack has these: cli/openstack-lease.rst.
autoprogram_cliff_ignored = [
    '--column',
    '--fit-width',
    '--format',
    '--help',
    '--max-width',
    '--noindent',
    '--prefix',
    '--print-empty',
    '--quote',
    '--sort-ascending',
    '--sort-column',
    '--sort-descending',
]
# Options begin with two hyphens, which stay as they are.
smartquotes_action = 'qe'
# Written into doc/source/configuration when the pages are built.
config_generator_config_file = [
    (str(root / 'etc/climate/config-generator.conf'), 'configuration/climate')
]
policy_generator_config_file = [
    (str(root / 'etc/climate/policy-generator.conf'), 'configuration/climate'),
    (str(root / 'etc/climate/nova-policy-generator.conf'), 'configuration/nova'),
    (str(root / 'etc/climate/cinder-policy-generator.conf'), 'configuration/cinder'),
]
# license_cc.html: the theme names another license.
templates_path = ['_templates']
html_theme = 'openstackdocs'
# Readers of these pages are not counted. Links to the source and to a tracker need
# openstackdocs_repo_name and openstackdocs_bug_project: doc/source/contributor/site.rst.
html_theme_options = {'analytics_tracking_code': ''}
openstackdocs_auto_name = False
openstackdocs_auto_version = False
version = release = '1.0.0'
man_pages = [
    (f'cli/{name}', name, title, '', 1)
    for name, title in {
        'climate-api': 'reservation API of OpenStack',
        'climate-manage': 'maintain the database, the leases and the keys of Climate',
        'climate-manager': 'start and end leases of Climate',
        'climate-nova-compute': 'nova-compute with the extension of Climate',
        'climate-nova-stash': 'maintain the keys of reserved servers',
        'climate-status': 'check an installation of Climate',
        'openstack-lease': 'reserve resources of OpenStack',
    }.items()
]
