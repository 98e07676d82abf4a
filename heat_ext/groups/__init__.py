# SPDX-License-Identifier: Apache-2.0
"""Autoscaling groups whose members are reserved."""
