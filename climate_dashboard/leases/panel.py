# SPDX-License-Identifier: Apache-2.0
"""The panel Leases."""

import horizon
from django.utils.translation import gettext_lazy as _

from climate_dashboard import api


class Leases(horizon.Panel):
    """Show what a project has reserved."""

    name = _('Leases')
    slug = 'climate_leases'
    permissions = (api.PERMISSION,)
    policy_rules = (('reservation', 'climate:leases:get'),)
