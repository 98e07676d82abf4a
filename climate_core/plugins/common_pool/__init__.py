# SPDX-License-Identifier: Apache-2.0
"""The room of the hosts that everybody uses, as Placement knows it. Pure."""
