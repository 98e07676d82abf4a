# SPDX-License-Identifier: Apache-2.0
"""Templates of several test modules."""

import copy

from heat.common import template_format

#: A volume, a server that starts from it, and what is told of them; nothing of leases.
PAIR = """
heat_template_version: 2018-08-31
resources:
  net: {type: 'OS::Neutron::Net'}
  disk: {type: 'OS::Cinder::Volume', properties: {size: 2, image: cirros}}
  server:
    type: OS::Nova::Server
    properties:
      flavor: m1
      block_device_mapping_v2: [{volume_id: {get_resource: disk}, boot_index: 0}]
      networks: [{network: {get_resource: net}}]
outputs:
  address: {value: {get_attr: [server, first_address]}}
  status: {value: {get_attr: [disk, status]}}
"""
#: Two servers in heat's own group.
COUNTED = """
heat_template_version: 2018-08-31
resources:
  net: {type: 'OS::Neutron::Net'}
  group:
    type: OS::Heat::ResourceGroup
    properties:
      count: 2
      resource_def:
        type: OS::Nova::Server
        properties: {flavor: m1, image: cirros, networks: [{network: {get_resource: net}}]}
outputs:
  addresses: {value: {get_attr: [group, first_address]}}
  names: {value: {get_attr: [group, name]}}
"""
#: Properties of a server that has nothing of its own.
SERVER = {'flavor': 'm1', 'image': 'cirros', 'networks': [{'network': {'get_resource': 'net'}}]}


def server(**properties):
    """The definition of such a server, with other properties."""
    return {'type': 'OS::Nova::Server', 'properties': {**SERVER, **properties}}


#: Two servers, the second after the first.
CHAIN = """
heat_template_version: 2018-08-31
resources:
  net: {type: 'OS::Neutron::Net'}
  first:
    type: OS::Nova::Server
    properties: {flavor: m1, image: cirros, networks: [{network: {get_resource: net}}]}
  second:
    type: OS::Nova::Server
    depends_on: first
    properties: {flavor: m1, image: cirros, networks: [{network: {get_resource: net}}]}
"""


def stack_level(lease_id, **more):
    """The environment that reserves a whole stack."""
    return {'parameter_defaults': {'climate_lease_id': lease_id, **more}}


def hinted(template, lease_id):
    """A template whose servers and volumes have the hints of a reservation."""
    result = parse(template)
    for resource in result['resources'].values():
        if resource['type'] in ('OS::Nova::Server', 'OS::Cinder::Volume'):
            hints = {'reserved': True, 'lease_id': lease_id}
            resource['properties'].setdefault('scheduler_hints', hints)
    return result


def parse(template):
    """A template as a mapping that can be changed."""
    return copy.deepcopy(
        template if isinstance(template, dict) else template_format.parse(template)
    )


def changed(template, name, /, **properties):
    """A template in which properties of a resource are others; None takes one away."""
    result = parse(template)
    kept = result['resources'][name]['properties']
    kept.update(properties)
    for key in [key for key, value in kept.items() if value is None]:
        del kept[key]
    return result


def without(template, *names):
    """A template that has some resources no more."""
    result = parse(template)
    for name in names:
        del result['resources'][name]
    result.pop('outputs', None)
    return result


def added(template, name, kind, /, **properties):
    """A template with one more resource."""
    result = parse(template)
    result['resources'][name] = {'type': kind, 'properties': properties}
    return result


#: A server and a volume that have nothing to do with each other.
UNLINKED = added(without(CHAIN, 'second'), 'disk', 'OS::Cinder::Volume', size=1)
