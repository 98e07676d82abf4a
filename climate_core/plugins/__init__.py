# SPDX-License-Identifier: Apache-2.0
"""What can be reserved: one module for each type of resource."""

from climate_core.plugins.loading import load

__all__ = ('load',)
