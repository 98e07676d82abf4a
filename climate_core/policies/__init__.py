# SPDX-License-Identifier: Apache-2.0
"""The default policies, one module per noun."""

from oslo_policy import policy

from climate_core.policies import (
    availability,
    calendar,
    feeds,
    floatingips,
    hosts,
    leases,
    limits,
    networks,
    plugins,
    reservations,
    usage,
)


def list_rules() -> list[policy.RuleDefault]:
    """Return every default, for the enforcer and for the tools of oslo.policy."""
    nouns = (
        leases,
        reservations,
        hosts,
        floatingips,
        networks,
        availability,
        calendar,
        feeds,
        plugins,
        usage,
        limits,
    )
    return [rule for noun in nouns for rule in noun.RULES]
