# SPDX-License-Identifier: Apache-2.0
"""Mixins for the resources of a stack that are reserved, or that wait for reserved ones."""
