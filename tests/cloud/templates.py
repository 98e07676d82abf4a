# SPDX-License-Identifier: Apache-2.0
"""Templates of the stacks on the local cloud; those that users read are in the documents.

They are JSON, which is YAML as well.
"""

import json
from typing import Any

from tests.cloud.people import ROOT
from tests.support import stacks

#: What users read; used as it is.
TEMPLATES = ROOT / 'doc' / 'source' / 'user' / 'templates'
#: A zone of which no other test fills more than half.
ZONE = 'az2'


def documented(name: str) -> str:
    """Read a template of the documents."""
    return (TEMPLATES / f'{name}.yaml').read_text()


def template(
    resources: dict[str, Any],
    parameters: dict[str, Any] | None = None,
    outputs: dict[str, Any] | None = None,
) -> str:
    """Write a template.

    :param outputs: name -> value
    """
    return json.dumps(
        {
            **stacks.EMPTY,
            'parameters': parameters or {},
            'resources': resources,
            'outputs': {name: {'value': value} for name, value in (outputs or {}).items()},
        }
    )


def resource(kind: str, depends_on: str | None = None, **properties: Any) -> dict[str, Any]:
    """Describe a resource; ``kind`` is its type without OS::."""
    return stacks.resource(f'OS::{kind}', depends_on, **properties)


def server(depends_on: str | None = None, **properties: Any) -> dict[str, Any]:
    """Describe the smallest server."""
    small = {'flavor': 'm1.tiny', 'image': 'cirros', 'networks': [{'network': 'shared'}]}
    return resource('Nova::Server', depends_on, **{**small, **properties})


def large(zone: str = ZONE, **more: Any) -> dict[str, Any]:
    """Describe a server of which a host has room for one."""
    return server(flavor='m1.xlarge', availability_zone=zone, **more)


def slow(seconds: int) -> dict[str, Any]:
    """Describe something whose update, by the parameter ``word``, takes these seconds."""
    word = {'get_param': 'word'}
    return resource('Heat::TestResource', value=word, action_wait_secs={'update': seconds})


def get(resource: str, attribute: str) -> dict[str, Any]:
    return {'get_attr': [resource, attribute]}


WORD = {'word': {'type': 'string', 'default': 'first'}}

#: A server with a disk.
WITH_DISK = {
    'server': server(),
    'disk': resource('Cinder::Volume', size=1),
    'attachment': resource(
        'Cinder::VolumeAttachment',
        instance_uuid={'get_resource': 'server'},
        volume_id={'get_resource': 'disk'},
    ),
}

EMPTY = template({})
SMALL = template({'server': server()})
#: Two servers that have nothing to do with each other.
PAIR = template({'first': server(), 'second': server()})
#: Takes its time for an update.
SLOW = template({'server': server(), 'slow': slow(15)}, WORD)
#: The second server starts with what the first one says when it runs.
SIGNALS = template(
    {
        'handle': resource('Heat::WaitConditionHandle'),
        'first': server(
            user_data_format='SOFTWARE_CONFIG',
            software_config_transport='POLL_SERVER_HEAT',
            metadata={'signal': get('handle', 'endpoint')},
        ),
        'ready': resource(
            'Heat::WaitCondition', 'first', handle={'get_resource': 'handle'}, timeout=300
        ),
        'config': resource(
            'Heat::SoftwareConfig', group='script', config='echo', outputs=[{'name': 'word'}]
        ),
        'deployment': resource(
            'Heat::SoftwareDeployment',
            'ready',
            config={'get_resource': 'config'},
            server={'get_resource': 'first'},
            signal_transport='HEAT_SIGNAL',
        ),
        'second': server(metadata={'word': get('deployment', 'word')}),
    },
    outputs={'word': get('deployment', 'word')},
)
#: One server that fits, and two of which a zone has room for one.
TOO_MUCH = template({'fits': server(), 'first': large(), 'second': large(depends_on='first')})
#: A server for which there is no room while another of its kind is in the zone.
LARGE = template(
    {'server': large(metadata={'secret': {'get_param': 'secret'}})},
    {'secret': {'type': 'string', 'hidden': True, 'default': 'none'}},
)
#: Names a nested template, one by a type of the environment, and a file that is no template.
NAMES = template(
    {
        'nested': {'type': 'part.yaml'},
        'mapped': {'type': 'My::Part'},
        'server': server(flavor={'get_param': 'flavor'}, metadata={'data': {'get_file': 'data'}}),
    },
    {'flavor': {'type': 'string'}},
)
