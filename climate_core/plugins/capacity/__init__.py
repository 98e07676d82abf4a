# SPDX-License-Identifier: Apache-2.0
"""Reserve room for servers of one flavor on hosts of a pool that many leases share."""
