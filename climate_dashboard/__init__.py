# SPDX-License-Identifier: Apache-2.0
"""The dashboard: panels of Horizon for leases, their calendar, and the hosts of pools."""
