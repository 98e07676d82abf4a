# SPDX-License-Identifier: Apache-2.0
"""Switch machines on and off: one driver per module, loaded by its entry point."""
