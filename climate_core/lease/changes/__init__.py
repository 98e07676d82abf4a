# SPDX-License-Identifier: Apache-2.0
"""Change a lease as users ask, or as resources of it are lost. Pure.

A change takes a lease as it is and returns what it becomes. :func:`climate_core.db.store.save`
writes the differences. A change that is applied twice changes nothing the second time, so that
users can repeat a request whose response was lost.
"""
