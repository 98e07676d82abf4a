# SPDX-License-Identifier: Apache-2.0
"""The panel Queued Leases: the queue of those for which there was not enough."""
