# SPDX-License-Identifier: Apache-2.0
"""``virtual:volume``: volumes that Cinder keeps in the status lease-reserved."""
