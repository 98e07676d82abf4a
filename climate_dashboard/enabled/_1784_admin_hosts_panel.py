# SPDX-License-Identifier: Apache-2.0
"""The panel Hosts of the dashboard Admin."""

PANEL = 'climate_hosts'
PANEL_DASHBOARD = 'admin'
PANEL_GROUP = 'admin_reservations'
ADD_PANEL = 'climate_dashboard.admin.hosts.panel.Hosts'
