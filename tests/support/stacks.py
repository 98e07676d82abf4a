# SPDX-License-Identifier: Apache-2.0
"""Stack templates, as mappings, and what builds one from another."""

import copy

VERSION = '2018-08-31'
NET = {'type': 'OS::Neutron::Net'}
EMPTY = {'heat_template_version': VERSION}
#: The properties of a server without volumes or ports of the template.
SERVER = {'flavor': 'm1', 'image': 'cirros', 'networks': [{'network': {'get_resource': 'net'}}]}


def resource(kind, /, depends_on=None, **properties):
    """Return the definition of a resource."""
    definition = {'type': kind, 'properties': properties}
    return {**definition, 'depends_on': depends_on} if depends_on else definition


def server(depends_on=None, **properties):
    """Return the definition of a server with :data:`SERVER` and other properties."""
    given = {**SERVER, **properties}
    kept = {name: value for name, value in given.items() if value is not None}
    return resource('OS::Nova::Server', depends_on, **kept)


def booting(disk, **properties):
    """Return the definition of a server that boots from a volume of the template."""
    boots = [{'volume_id': {'get_resource': disk}, 'boot_index': 0}]
    return server(image=None, block_device_mapping_v2=boots, **properties)


def volume(**properties):
    """Return the definition of a volume."""
    return resource('OS::Cinder::Volume', **properties)


def attachment(server, disk):
    """Return the definition of the attachment of a volume to a server."""
    ids = {'instance_uuid': {'get_resource': server}, 'volume_id': {'get_resource': disk}}
    return resource('OS::Cinder::VolumeAttachment', **ids)


def lease(start, end, **properties):
    """Return the definition of a lease.

    :param start: and ``end``, dates as the lease service takes them
    """
    properties = {'name': 'lease1', 'start_date': start, 'end_date': end, **properties}
    return resource('OS::Climate::Lease', **properties)


def stack(resources, outputs=None, parameters=()):
    """Return a template.

    :param outputs: name -> path of an attribute, as ``['server', 'name']``
    :param parameters: names of parameters of the type string
    """
    result = {**EMPTY, 'resources': resources}
    if parameters:
        result['parameters'] = {name: {'type': 'string'} for name in parameters}
    if outputs:
        result['outputs'] = {name: {'value': {'get_attr': path}} for name, path in outputs.items()}
    return copy.deepcopy(result)


def stack_level(lease_id, **more):
    """Return the environment that reserves a whole stack."""
    return {'parameter_defaults': {'climate_lease_id': lease_id, **more}}


def hinted(template, lease_id):
    """Return a template whose servers and volumes have the hints of a reservation."""
    result = copy.deepcopy(template)
    for each in result['resources'].values():
        if each['type'] in ('OS::Nova::Server', 'OS::Cinder::Volume'):
            hints = {'reserved': True, 'lease_id': lease_id}
            each['properties'].setdefault('scheduler_hints', hints)
    return result


def changed(template, name, /, **properties):
    """Return a template with other properties of a resource; None removes one."""
    result = copy.deepcopy(template)
    kept = result['resources'][name]['properties']
    kept.update(properties)
    for key in [key for key, value in kept.items() if value is None]:
        del kept[key]
    return result


def without(template, *names):
    """Return a template without some resources, and without outputs."""
    result = copy.deepcopy(template)
    for name in names:
        del result['resources'][name]
    result.pop('outputs', None)
    return result


def added(template, /, **resources):
    """Return a template with more resources."""
    result = copy.deepcopy(template)
    result['resources'].update(copy.deepcopy(resources))
    return result


def depending(template, name, on):
    """Return a template in which a resource depends on others."""
    result = copy.deepcopy(template)
    result['resources'][name]['depends_on'] = on
    return result


def with_second(template):
    """Return a template with one more server."""
    return added(template, second=server())


def ported(template, *names, server='server'):
    """Return a template in which a server has ports of the template, ``port`` and more."""
    for name in ('port', *names):
        port = resource('OS::Neutron::Port', network={'get_resource': 'net'})
        template = added(template, **{name: port})
    ports = [{'port': {'get_resource': name}} for name in ('port', *names)]
    return changed(template, server, networks=ports)


#: A server.
PLAIN = stack({'net': NET, 'server': server()})
#: A volume, a server that boots from it, and attributes of both; nothing of leases.
PAIR = stack(
    {'net': NET, 'disk': volume(size=2, image='cirros'), 'server': booting('disk')},
    {'address': ['server', 'first_address'], 'status': ['disk', 'status']},
)
#: Two servers, the second after the first.
CHAIN = stack({'net': NET, 'first': server(), 'second': server(depends_on='first')})
#: A server and a volume that do not refer to each other.
UNLINKED = added(without(CHAIN, 'second'), disk=volume(size=1))
#: A server and a volume that is attached to it.
ATTACHED = stack({
    'net': NET,
    'disk': volume(size=2, image='cirros'),
    'server': server(),
    'attachment': attachment('server', 'disk'),
})  # fmt: skip
#: A server, and a script that is deployed to it.
DEPLOYED = stack(
    {
        'net': NET,
        'config': resource(
            'OS::Heat::SoftwareConfig', group='script', config='hello', outputs=[{'name': 'said'}]
        ),
        'server': server(user_data_format='SOFTWARE_CONFIG'),
        'deployment': resource(
            'OS::Heat::SoftwareDeployment',
            config={'get_resource': 'config'},
            server={'get_resource': 'server'},
            actions=['CREATE', 'SUSPEND', 'RESUME', 'DELETE'],
            signal_transport='HEAT_SIGNAL',
        ),
    },
    {'said': ['deployment', 'said']},
)
#: A condition that waits for a signal of a server, which gets the handle by its user data; the
#: condition does not depend on the server.
WAITING = stack(
    {
        'net': NET,
        'handle': resource('OS::Heat::WaitConditionHandle', signal_transport='HEAT_SIGNAL'),
        'condition': resource(
            'OS::Heat::WaitCondition',
            'config',
            handle={'get_resource': 'handle'},
            timeout=600,
            count=1,
        ),
        'config': resource('OS::Heat::SoftwareConfig', config={'get_attr': ['handle', 'token']}),
        'server': server(user_data={'get_resource': 'config'}, user_data_format='RAW'),
    },
    {'data': ['condition', 'data']},
)


def _policy(adjustment, kind='change_in_capacity'):
    return resource(
        'OS::Heat::ScalingPolicy',
        adjustment_type=kind,
        auto_scaling_group_id={'get_resource': 'group'},
        scaling_adjustment=adjustment,
    )


#: An autoscaling group of 1 to 3 servers, and policies to scale it.
GROUP = stack(
    {
        'net': NET,
        'group': resource('OS::Heat::AutoScalingGroup', min_size=1, max_size=3, resource=server()),
        'up': _policy(1),
        'down': _policy(-1),
        'exact': _policy(3, 'exact_capacity'),
        'half': _policy(-50, 'percent_change_in_capacity'),
    },
    {
        'size': ['group', 'current_size'],
        'addresses': ['group', 'outputs_list', 'first_address'],
        'refs': ['group', 'refs'],
    },
)
#: Everything of it that refers to the group.
OF_GROUP = ('group', 'up', 'down', 'exact', 'half')
#: Heat's own group of two servers, which know their number.
COUNTED = stack(
    {
        'net': NET,
        'group': resource(
            'OS::Heat::ResourceGroup',
            count=2,
            resource_def=server(name='web-%index%', metadata={'number': '%index%'}),
        ),
    },
    {'addresses': ['group', 'first_address'], 'names': ['group', 'name']},
)
_OUTER = {'networks': [{'network': {'get_param': 'net'}}]}
#: A nested stack: a volume and a server that boots from it.
INNER = stack(
    {'disk': volume(size=1, image='cirros'), 'server': booting('disk', **_OUTER)},
    {'address': ['server', 'first_address']},
    ['net'],
)
#: Three of them in heat's own group, and a server after it.
OUTER = stack(
    {
        'net': NET,
        'group': resource(
            'OS::Heat::ResourceGroup',
            count=3,
            resource_def=resource('inner.yaml', net={'get_resource': 'net'}),
        ),
        'last': server(depends_on='group'),
    },
    {'addresses': ['group', 'address']},
)
#: A member of a group, of two servers and two volumes.
MEMBER = added(
    INNER,
    data=volume(size=1),
    attachment=attachment('server', 'data'),
    second=server(**_OUTER),
)
#: An autoscaling group of such members.
NESTED = changed(GROUP, 'group', resource=resource('member.yaml', net={'get_resource': 'net'}))
NESTED['outputs']['addresses'] = {'value': {'get_attr': ['group', 'outputs_list', 'address']}}
