# SPDX-License-Identifier: Apache-2.0
"""The client of the lease service for heat, and the wake-up requests to nova and cinder."""
