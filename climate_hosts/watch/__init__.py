# SPDX-License-Identifier: Apache-2.0
"""Keep the hosts of the pools as Nova, Placement and the calendar have them."""
