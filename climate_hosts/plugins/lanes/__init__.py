# SPDX-License-Identifier: Apache-2.0
"""Reserve hosts of the pools, or shares of them: what their two plugins have in common."""
