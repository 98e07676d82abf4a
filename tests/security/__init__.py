# SPDX-License-Identifier: Apache-2.0
"""Requests of a hostile project member, a compromised service, a forged message and a webhook."""
