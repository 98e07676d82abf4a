# SPDX-License-Identifier: Apache-2.0
"""Policies of limits."""

from climate_core.policies.base import READER, rule

GET = 'climate:limits:get'

RULES = [rule(GET, READER, 'See the limits of a project, and what it holds.', 'GET /v1/limits')]
