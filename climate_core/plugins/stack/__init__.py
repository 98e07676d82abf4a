# SPDX-License-Identifier: Apache-2.0
"""``virtual:stack``: Heat stacks, with the servers and volumes in them."""
