# SPDX-License-Identifier: Apache-2.0
"""Real climate-manager processes that die at named points; the cloud's journal is the judge."""
