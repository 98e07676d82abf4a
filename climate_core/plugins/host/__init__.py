# SPDX-License-Identifier: Apache-2.0
"""Whole hosts of the pools."""
