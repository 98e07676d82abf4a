# SPDX-License-Identifier: Apache-2.0
"""The tree of nested stacks: the place of a resource in it, and which resources are reserved."""
