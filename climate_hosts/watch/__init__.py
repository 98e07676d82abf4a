# SPDX-License-Identifier: Apache-2.0
"""Keep the hosts of the pools in sync with Nova, Placement and the calendar."""
