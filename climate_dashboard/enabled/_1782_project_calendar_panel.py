# SPDX-License-Identifier: Apache-2.0
"""The panel Calendar of the dashboard Project."""

PANEL = 'climate_calendar'
PANEL_DASHBOARD = 'project'
PANEL_GROUP = 'reservations'
ADD_PANEL = 'climate_dashboard.calendar.panel.Calendar'
