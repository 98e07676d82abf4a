# SPDX-License-Identifier: Apache-2.0
"""The resource types and constraints that heat loads from this directory.

An exception here stops heat-engine on purpose: a release of heat that lacks an extension point
must not start with this extension.
"""

from typing import Any

from heat_ext import seams
from heat_ext.resources import (
    attachment,
    deployment,
    floating_ip,
    groups,
    held_floating_ip,
    lease,
    server,
    volume,
    wait_condition,
)
from heat_ext.service import constraints

MODULES = (
    attachment,
    deployment,
    floating_ip,
    groups,
    held_floating_ip,
    lease,
    server,
    volume,
    wait_condition,
)

seams.check()


def resource_mapping() -> dict[str, Any]:
    """Return the classes of resources by the names that templates use."""
    return {name: found for each in MODULES for name, found in each.TYPES.items()}


def constraint_mapping() -> dict[str, Any]:
    """Return the constraints by the names that properties use."""
    return constraints.MAPPING
