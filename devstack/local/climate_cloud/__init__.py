# SPDX-License-Identifier: Apache-2.0
"""A real OpenStack as plain processes on one machine, with Climate in it."""
