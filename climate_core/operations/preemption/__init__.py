# SPDX-License-Identifier: Apache-2.0
"""Preemption: take the resources of preemptible leases for a lease that is not preemptible."""
