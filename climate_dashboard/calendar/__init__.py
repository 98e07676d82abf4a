# SPDX-License-Identifier: Apache-2.0
"""The panel Calendar: what is promised to a project when, and how much is free."""
