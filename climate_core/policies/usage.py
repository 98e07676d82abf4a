# SPDX-License-Identifier: Apache-2.0
"""Policies of usage."""

from climate_core.policies.base import ADMIN, READER, rule

GET = 'climate:usage:get'
GET_ALL = 'climate:usage:get_all'

RULES = [
    rule(GET, READER, 'See what a project has reserved and used.', 'GET /v1/usage'),
    rule(GET_ALL, ADMIN, 'See what all projects have reserved and used.', 'GET /v1/usage'),
]
