# SPDX-License-Identifier: Apache-2.0
"""The files by which Horizon is told of the panels: copied to its own, or added to their path."""
