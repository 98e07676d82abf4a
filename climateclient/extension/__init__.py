# SPDX-License-Identifier: Apache-2.0
"""The common part of the extensions of Nova, Cinder and Heat.

Users reserve with the same scheduler hints in all three services: ``hints`` and ``lease_params``
read them, ``options`` is the section ``[climate]`` of that service's configuration, ``leases`` has
its calls of the lease service, ``policies`` the rule of wake_up, ``seams`` the check that the
service has the extension points that the extension was made for. Nothing here imports Nova,
Cinder or Heat.
"""
