# SPDX-License-Identifier: Apache-2.0
"""Handlers of requests, by noun. Their docstrings are the API reference."""
