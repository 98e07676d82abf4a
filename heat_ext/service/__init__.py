# SPDX-License-Identifier: Apache-2.0
"""The lease service and the waking calls, seen from heat."""
