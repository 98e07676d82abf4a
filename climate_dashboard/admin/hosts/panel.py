# SPDX-License-Identifier: Apache-2.0
"""The panel Hosts."""

import horizon
from django.utils.translation import gettext_lazy as _

from climate_dashboard import api


class Hosts(horizon.Panel):
    """The hosts of the pools."""

    name = _('Hosts')
    slug = 'climate_hosts'
    permissions = (api.PERMISSION,)
    policy_rules = (('reservation', 'climate:hosts:get'),)
