# SPDX-License-Identifier: Apache-2.0
"""What heat loads from this directory: names of resource types and of constraints.

An exception here stops heat-engine, which is meant: a heat without the places that the extension
leans on must not start with it.
"""

from typing import Any

from heat_ext import seams
from heat_ext.resources import (
    attachment,
    deployment,
    groups,
    lease,
    server,
    volume,
    wait_condition,
)
from heat_ext.service import constraints

MODULES = (attachment, deployment, groups, lease, server, volume, wait_condition)

seams.check()


def resource_mapping() -> dict[str, Any]:
    """Give the classes by the names that templates use."""
    return {name: found for each in MODULES for name, found in each.TYPES.items()}


def constraint_mapping() -> dict[str, Any]:
    """Give the constraints by the names that properties use."""
    return constraints.MAPPING
