# SPDX-License-Identifier: Apache-2.0
"""The panel Queued Leases."""

import horizon
from django.utils.translation import gettext_lazy as _

from climate_dashboard import api


class Queue(horizon.Panel):
    """The leases for which there was not enough."""

    name = _('Queued Leases')
    slug = 'climate_queue'
    permissions = (api.PERMISSION,)
    policy_rules = (('reservation', 'climate:leases:get_all'),)
