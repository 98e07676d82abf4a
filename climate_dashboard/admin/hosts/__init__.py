# SPDX-License-Identifier: Apache-2.0
"""The panel Hosts: those of the pools, which leases have."""
