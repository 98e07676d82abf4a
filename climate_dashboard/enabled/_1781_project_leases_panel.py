# SPDX-License-Identifier: Apache-2.0
"""The panel Leases of the dashboard Project."""

PANEL = 'climate_leases'
PANEL_DASHBOARD = 'project'
PANEL_GROUP = 'reservations'
ADD_PANEL = 'climate_dashboard.leases.panel.Leases'
