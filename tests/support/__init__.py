# SPDX-License-Identifier: Apache-2.0
"""Share among the suites: fakes of the clouds, databases, leases, templates of stacks."""
