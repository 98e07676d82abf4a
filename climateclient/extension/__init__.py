# SPDX-License-Identifier: Apache-2.0
"""What the extensions of Nova, Cinder and Heat have in common.

A user asks for a reservation with scheduler hints, whichever service it is: ``hints`` and
``dates`` read them, ``options`` is the section ``[climate]`` of that service's configuration,
``leases`` the lease service seen from there, ``policies`` who may wake a resource, ``seams`` the
check that the service is the one the extension was made for. Nothing here imports Nova, Cinder or
Heat.
"""
