# SPDX-License-Identifier: Apache-2.0
"""What the suites share: fakes of the clouds, databases, leases, templates of stacks."""
