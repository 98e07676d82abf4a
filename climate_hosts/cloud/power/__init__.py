# SPDX-License-Identifier: Apache-2.0
"""Switch machines on and off: one driver a module, found by their entry points."""
