# SPDX-License-Identifier: Apache-2.0
"""The default policies, one module per noun."""

from oslo_policy import policy

from climate_core.policies import (
    availability,
    calendar,
    feeds,
    leases,
    limits,
    plugins,
    reservations,
    usage,
)
from climate_hosts import policies
from climate_networks.policies import floatingips, networks


def list_rules() -> list[policy.RuleDefault]:
    """Return every default, for the enforcer and for the tools of oslo.policy."""
    return [
        *leases.RULES,
        *reservations.RULES,
        *policies.RULES,
        *floatingips.RULES,
        *networks.RULES,
        *availability.RULES,
        *calendar.RULES,
        *feeds.RULES,
        *plugins.RULES,
        *usage.RULES,
        *limits.RULES,
    ]
