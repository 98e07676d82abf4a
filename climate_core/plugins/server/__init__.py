# SPDX-License-Identifier: Apache-2.0
"""``virtual:instance``: servers that Nova builds in the state RESERVED."""
