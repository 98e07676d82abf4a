# SPDX-License-Identifier: Apache-2.0
"""The panel Queued Leases of the dashboard Admin."""

PANEL = 'climate_queue'
PANEL_DASHBOARD = 'admin'
PANEL_GROUP = 'admin_reservations'
ADD_PANEL = 'climate_dashboard.admin.queue.panel.Queue'
