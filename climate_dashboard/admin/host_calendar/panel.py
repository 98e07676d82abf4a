# SPDX-License-Identifier: Apache-2.0
"""The panel Calendar of Hosts."""

import horizon
from django.utils.translation import gettext_lazy as _

from climate_dashboard import api


class HostCalendar(horizon.Panel):
    """Show operators which lease has which host when."""

    name = _('Calendar of Hosts')
    slug = 'climate_host_calendar'
    permissions = (api.PERMISSION,)
    policy_rules = (('reservation', 'climate:hosts:get_allocations'),)
