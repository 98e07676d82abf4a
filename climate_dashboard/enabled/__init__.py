# SPDX-License-Identifier: Apache-2.0
"""The files that register the panels in Horizon: copied to its own, or added to their path."""
