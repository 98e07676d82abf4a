# SPDX-License-Identifier: Apache-2.0
"""The panel Calendar: the reservations of a project, and the free capacity."""
