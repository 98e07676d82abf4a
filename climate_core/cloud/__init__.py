# SPDX-License-Identifier: Apache-2.0
"""Calls to the other services of the cloud, through keystoneauth."""

from climate_core.cloud.connections import Cloud

__all__ = ('Cloud',)
