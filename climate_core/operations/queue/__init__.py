# SPDX-License-Identifier: Apache-2.0
"""The wait queue: leases that are granted when there is capacity for them."""
