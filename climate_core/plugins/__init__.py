# SPDX-License-Identifier: Apache-2.0
"""Types of resources that can be reserved: one package for each."""

from climate_core.plugins.loading import load

__all__ = ('load',)
