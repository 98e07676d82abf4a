# SPDX-License-Identifier: Apache-2.0
"""The panel Usage: what projects reserved and used."""
