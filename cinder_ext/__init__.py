# SPDX-License-Identifier: Apache-2.0
"""Reserved volumes in cinder 29, without replacing any function or class of cinder.

A creation with the hint ``reserved=True`` counts the quota, enters the lease, lets the scheduler
choose a backend and hold the capacity there, and stops: the volume is ``lease-reserved`` and
nothing is on the backend. ``os-wake_up`` is the second half of the same creation.
"""
