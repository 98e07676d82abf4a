# SPDX-License-Identifier: Apache-2.0
"""Reserve network segments that an operator set apart, which the calendar promises."""
