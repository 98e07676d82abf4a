# SPDX-License-Identifier: Apache-2.0
"""The panel Calendar."""

import horizon
from django.utils.translation import gettext_lazy as _

from climate_dashboard import api


class Calendar(horizon.Panel):
    """The leases of a project as bars, and capacity over time."""

    name = _('Calendar')
    slug = 'climate_calendar'
    permissions = (api.PERMISSION,)
    policy_rules = (('reservation', 'climate:calendar:get'),)
