# SPDX-License-Identifier: Apache-2.0
"""Change a lease as users ask, or as resources of it are lost: one module for each verb. Pure.

``apply`` of each module takes a lease as it is and returns what it becomes; what differs is
written by :func:`climate_core.db.store.save`. Doing the same once more changes nothing, so that a
request whose answer was lost can be repeated.
"""
