# SPDX-License-Identifier: Apache-2.0
"""The panel Usage of the dashboard Admin."""

PANEL = 'climate_usage'
PANEL_DASHBOARD = 'admin'
PANEL_GROUP = 'admin_reservations'
ADD_PANEL = 'climate_dashboard.admin.usage.panel.Usage'
