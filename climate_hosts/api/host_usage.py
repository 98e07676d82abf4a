# SPDX-License-Identifier: Apache-2.0
"""Answer requests for how long hosts slept."""

import webob

from climate_common import dates
from climate_core.api import policy
from climate_core.api.handlers import usage as lease_usage
from climate_core.api.request import Backend, Request, answer
from climate_hosts import policies as rules
from climate_hosts.db import host_sleeps
from climate_hosts.domain import power


def get(backend: Backend, request: Request) -> webob.Response:
    """Show for how many hours of a period each host slept, and the energy that saved.

    Hosts that are in no pool any more are shown, too. The energy is known where the operator has
    set ``[power] watts``.
    """
    policy.authorize(backend.enforcer, request.context, rules.GET_USAGE, {})
    watts = backend.conf.power.watts
    with backend.database.reader() as session:
        period = lease_usage.period(session, request.parameters)
        found = host_sleeps.hours(session, period)
    shown = [
        {
            'hypervisor_hostname': name,
            'start': dates.serialize(period.begin),
            'end': dates.serialize(period.end),
            'asleep_hours': round(hours, 6),
            'saved_kwh': power.saved_kwh(hours, watts),
        }
        for name, hours in found.items()
    ]
    return answer(200, {'usage': shown})
