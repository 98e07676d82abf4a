# SPDX-License-Identifier: Apache-2.0
"""The capacity of the shared hosts, as Placement reports it. Pure."""
