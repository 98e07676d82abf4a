# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration of the release notes."""

project = 'Climate Release Notes'
copyright = 'Climate developers'
extensions = ['openstackdocstheme', 'reno.sphinxext']
html_theme = 'openstackdocs'
openstackdocs_auto_name = False
openstackdocs_auto_version = False
# Release notes cover several versions.
version = release = ''
