# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of requests and responses, by noun."""
