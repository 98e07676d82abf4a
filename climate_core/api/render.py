# SPDX-License-Identifier: Apache-2.0
"""Render hosts, floating IPs and segments that operators register, as Blazar does."""
