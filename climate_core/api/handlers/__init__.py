# SPDX-License-Identifier: Apache-2.0
"""Handlers of the requests, one module for each noun."""
