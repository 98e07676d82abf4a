# SPDX-License-Identifier: Apache-2.0
"""The step "Reserve" of Horizon's form that launches servers."""

from typing import Any

from horizon.views import HorizonTemplateView

from climate_common import resource_types
from climate_dashboard import allowed, times, words


class LaunchView(allowed.AllowedMixin, times.LocalTimeMixin, HorizonTemplateView):
    """The fields of the step, which the script ``climate.launch.js`` adds and sends as hints."""

    rule = 'climate:leases:create'
    template_name = 'climate_dashboard/leases/launch.html'

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        ends = resource_types.ON_END[resource_types.SERVER]
        return super().get_context_data(**kwargs) | {
            'zone': times.zone_name(),
            'ends': [(each, words.word(words.ENDS, each)) for each in ends],
        }
