# SPDX-License-Identifier: Apache-2.0
"""The tree of a stack: where a resource is in it, and what of it is asleep."""
