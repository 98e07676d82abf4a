# SPDX-License-Identifier: Apache-2.0
"""The panel Leases: what a project has reserved, and what can be done with it."""
