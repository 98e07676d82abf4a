# SPDX-License-Identifier: Apache-2.0
"""The panel Calendar of Hosts of the dashboard Admin."""

PANEL = 'climate_host_calendar'
PANEL_DASHBOARD = 'admin'
PANEL_GROUP = 'admin_reservations'
ADD_PANEL = 'climate_dashboard.admin.host_calendar.panel.HostCalendar'
