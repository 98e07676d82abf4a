# SPDX-License-Identifier: Apache-2.0
"""The client of Climate, the lease service.

:class:`climateclient.client.Client` needs nothing but keystoneauth1. The commands of
``openstack lease`` are in :mod:`climateclient.osc` and need the extra ``client``.
"""
