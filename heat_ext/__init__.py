# SPDX-License-Identifier: Apache-2.0
"""Leases and reserved stacks in heat 27, without replacing any function or class of heat.

``OS::Climate::Lease`` is a lease. A server or a volume with the hints ``reserved`` and
``lease_id`` is reserved with the stack, and woken up by an update of the stack when its lease
starts. So is every server and volume of a stack whose environment names a lease::

    parameter_defaults:
      climate_lease_id: 5f1c...

heat.conf alone, for heat-api and heat-engine::

    [DEFAULT]
    # The directory of this package, in addition to those that are configured.
    plugin_dirs = /usr/lib/python3/dist-packages/heat_ext/plugins

    [climate]
    # Without it the service "reservation" is looked up in the catalog.
    endpoint_override = http://controller:1234/v1

    [service_user]
    # The credentials of heat's service user: a wake-up needs the token of the stack's owner and
    # a service token.
    auth_type = password
    ...

and ``environment.d/climate.yaml`` of this package in heat's ``environment_dir``: it maps heat's
own names of resource types to the classes that can be reserved. Without it a user can do the same
in the environment of a stack.

What all extensions share (hints, dates, the requests to the lease service) is in
``climateclient.extension``. The packages::

    seams                  the extension points of heat that are used
    plugins/               what heat loads
    environment.d/         the mapping of names
    resources/             one module per resource type
    members/               the request, creation, wake-up, update and replacement of a reserved
                           server or volume; what is deferred until it has started
    groups/                the active and standby members of autoscaling groups
    lease/                 the properties of a lease in a template, and their changes
    stacks/                the tree of nested stacks: which resources are reserved, and where
    service/               options, the client of the lease service, constraints, wake-up requests
"""
