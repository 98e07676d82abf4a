# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of what is sent and answered, one module per noun."""
