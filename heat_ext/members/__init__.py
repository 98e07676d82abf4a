# SPDX-License-Identifier: Apache-2.0
"""Resources that can be reserved: what they ask for, and what they do asleep."""
