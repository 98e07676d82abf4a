# SPDX-License-Identifier: Apache-2.0
"""Templates for the tests of reserved stacks; those that users read are in the documents."""

#: Two servers that have nothing to do with each other.
PAIR = """
heat_template_version: 2021-04-16
resources:
  first:
    type: OS::Nova::Server
    properties: {flavor: m1.tiny, image: cirros, networks: [{network: shared}]}
  second:
    type: OS::Nova::Server
    properties: {flavor: m1.tiny, image: cirros, networks: [{network: shared}]}
"""

#: The second server starts with what the first one says when it runs.
SIGNALS = """
heat_template_version: 2021-04-16
resources:
  handle:
    type: OS::Heat::WaitConditionHandle
  first:
    type: OS::Nova::Server
    properties:
      flavor: m1.tiny
      image: cirros
      networks: [{network: shared}]
      user_data_format: SOFTWARE_CONFIG
      software_config_transport: POLL_SERVER_HEAT
      metadata: {signal: {get_attr: [handle, endpoint]}}
  ready:
    type: OS::Heat::WaitCondition
    depends_on: first
    properties: {handle: {get_resource: handle}, timeout: 300}
  config:
    type: OS::Heat::SoftwareConfig
    properties: {group: script, config: echo, outputs: [{name: word}]}
  deployment:
    type: OS::Heat::SoftwareDeployment
    depends_on: ready
    properties:
      config: {get_resource: config}
      server: {get_resource: first}
      signal_transport: HEAT_SIGNAL
  second:
    type: OS::Nova::Server
    properties:
      flavor: m1.tiny
      image: cirros
      networks: [{network: shared}]
      metadata: {word: {get_attr: [deployment, word]}}
outputs:
  word: {value: {get_attr: [deployment, word]}}
"""

#: One server, and more that are so big that a host has room for one of them.
WIDE = """
heat_template_version: 2021-04-16
parameters:
  wide: {type: number, default: 0}
resources:
  first:
    type: OS::Nova::Server
    properties: {flavor: m1.tiny, image: cirros, networks: [{network: shared}]}
  group:
    type: OS::Heat::ResourceGroup
    properties:
      count: {get_param: wide}
      resource_def:
        type: OS::Nova::Server
        properties:
          availability_zone: az1
          flavor: m1.xlarge
          image: cirros
          networks: [{network: shared}]
"""

#: A server with a disk, and something that takes its time for an update.
PHASES = """
heat_template_version: 2021-04-16
parameters:
  word: {type: string, default: first}
resources:
  server:
    type: OS::Nova::Server
    properties: {flavor: m1.tiny, image: cirros, networks: [{network: shared}]}
  disk:
    type: OS::Cinder::Volume
    properties: {size: 1}
  attachment:
    type: OS::Cinder::VolumeAttachment
    properties: {instance_uuid: {get_resource: server}, volume_id: {get_resource: disk}}
  slow:
    type: OS::Heat::TestResource
    properties:
      value: {get_param: word}
      action_wait_secs: {update: 10}
"""

#: A template of its own for each worker, in a group of a fixed size and in one that grows.
WORKERS = """
heat_template_version: 2021-04-16
resources:
  fixed:
    type: OS::Heat::ResourceGroup
    properties:
      count: 1
      resource_def: {type: worker.yaml}
  growing:
    type: OS::Heat::AutoScalingGroup
    properties:
      min_size: 1
      max_size: 2
      resource: {type: worker.yaml}
outputs:
  disks: {value: {get_attr: [fixed, disk]}}
"""

WORKER = """
heat_template_version: 2021-04-16
resources:
  server:
    type: OS::Nova::Server
    properties: {flavor: m1.tiny, image: cirros, networks: [{network: shared}]}
  disk:
    type: OS::Cinder::Volume
    properties: {size: 1}
  attachment:
    type: OS::Cinder::VolumeAttachment
    properties: {instance_uuid: {get_resource: server}, volume_id: {get_resource: disk}}
outputs:
  disk: {value: {get_attr: [disk, status]}}
"""
