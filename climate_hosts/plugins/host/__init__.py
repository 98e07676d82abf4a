# SPDX-License-Identifier: Apache-2.0
"""Reserve whole compute hosts of a pool, which the calendar promises."""
