# SPDX-License-Identifier: Apache-2.0
"""Compare the database of Blazar with what Climate can take over."""
