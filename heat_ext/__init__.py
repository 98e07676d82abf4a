# SPDX-License-Identifier: Apache-2.0
"""Leases and reserved stacks in heat 27, without replacing any function or class of heat.

``OS::Climate::Lease`` is a lease. A server or a volume with the hints ``reserved`` and
``lease_id`` is reserved with the stack, and woken by an update of the stack when its lease
starts; so is every server and volume of a stack whose environment names a lease::

    parameter_defaults:
      climate_lease_id: 5f1c...

heat.conf alone, for heat-api and heat-engine::

    [DEFAULT]
    # The directory of this package, beside those that are there.
    plugin_dirs = /usr/lib/python3/dist-packages/heat_ext/plugins

    [climate]
    # Or leave it out: then the service "reservation" is looked up in the catalogue.
    endpoint_override = http://controller:1234/v1

    [service_user]
    # The credentials of heat's service user: a server is woken with the rights of the stack's
    # owner together with this one's token.
    auth_type = password
    ...

and ``environment.d/climate.yaml`` of this package in heat's ``environment_dir``: it puts the
classes that can be reserved in the place of heat's own names. Without it a user can do the same
in the environment of a stack.

What all extensions share (hints, dates, the way to the lease service) is in
``climateclient.extension``. The rooms::

    seams                  the places of heat that the extension leans on
    plugins/               what heat loads
    environment.d/         the names
    resources/             one module per resource type
    members/               what a server or a volume of a stack asks for, asleep, and what waits
                           for it; which members of a group are spares; who is abandoned
    lease/                 what a template says of a lease, and what a change of that asks for
    stacks/                the tree of a stack: what of it is asleep, where a resource is
    service/               the lease service: options, client, constraints, and the waking calls
"""
