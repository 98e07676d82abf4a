# SPDX-License-Identifier: Apache-2.0
"""The panel Usage."""

import horizon
from django.utils.translation import gettext_lazy as _

from climate_dashboard import api


class Usage(horizon.Panel):
    """Show operators what projects reserved and used."""

    name = _('Usage')
    slug = 'climate_usage'
    permissions = (api.PERMISSION,)
    policy_rules = (('reservation', 'climate:usage:get_all'),)
