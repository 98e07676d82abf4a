# SPDX-License-Identifier: Apache-2.0
"""Templates from which the lease service makes stacks."""

#: One server that fits, and two of which a zone has place for one.
TOO_MUCH = """
heat_template_version: 2021-04-16
resources:
  fits:
    type: OS::Nova::Server
    properties: {flavor: m1.tiny, image: cirros, networks: [{network: shared}]}
  first:
    type: OS::Nova::Server
    properties: &large
      flavor: m1.xlarge
      image: cirros
      availability_zone: az3
      networks: [{network: shared}]
  second:
    type: OS::Nova::Server
    depends_on: first
    properties: *large
"""
SMALL = """
heat_template_version: 2021-04-16
resources:
  server:
    type: OS::Nova::Server
    properties: {flavor: m1.tiny, image: cirros, networks: [{network: shared}]}
"""
NAMES = """
heat_template_version: 2021-04-16
parameters:
  flavor: {type: string}
resources:
  nested: {type: part.yaml}
  mapped: {type: My::Part}
  server:
    type: OS::Nova::Server
    properties:
      flavor: {get_param: flavor}
      image: cirros
      networks: [{network: shared}]
      metadata: {data: {get_file: data}}
"""
#: A server for which there is no place while another of its kind is in the zone.
LARGE = """
heat_template_version: 2021-04-16
parameters:
  secret: {type: string, hidden: true, default: none}
resources:
  server:
    type: OS::Nova::Server
    properties:
      flavor: m1.xlarge
      image: cirros
      availability_zone: az3
      networks: [{network: shared}]
      metadata: {secret: {get_param: secret}}
"""
#: A stack whose lease has another one made.
OUTER = """
heat_template_version: 2021-04-16
parameters:
  end: {type: string}
  start: {type: string}
  name: {type: string}
  inner: {type: string}
  on_end: {type: string, default: delete}
resources:
  lease:
    type: OS::Climate::Lease
    properties:
      start_date: {get_param: start}
      end_date: {get_param: end}
      reservations:
        - resource_type: virtual:stack
          name: {get_param: name}
          template: {get_param: inner}
          on_end: {get_param: on_end}
outputs:
  lease: {value: {get_resource: lease}}
"""
