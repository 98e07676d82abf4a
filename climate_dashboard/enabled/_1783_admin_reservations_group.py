# SPDX-License-Identifier: Apache-2.0
"""The group Reservations of the dashboard Admin."""

from django.utils.translation import gettext_lazy as _

PANEL_GROUP = 'admin_reservations'
PANEL_GROUP_NAME = _('Reservations')
PANEL_GROUP_DASHBOARD = 'admin'
