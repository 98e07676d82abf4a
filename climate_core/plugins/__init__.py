# SPDX-License-Identifier: Apache-2.0
"""Types of resources that can be reserved: one module for each, and forecasts of capacity."""
