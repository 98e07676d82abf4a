# SPDX-License-Identifier: Apache-2.0
"""Reserve floating IPs that an operator set apart, which the calendar promises."""
