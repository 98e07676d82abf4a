# SPDX-License-Identifier: Apache-2.0
"""Answers as the lease service gives them."""

from typing import Any

ENDPOINT = 'http://climate.example.org:1234/v1'
LEASE_ID = '0cc12f7a-0000-4000-8000-000000000001'
OTHER_ID = '0cc12f7a-0000-4000-8000-000000000002'
SERVER_ID = '629581d6-0000-4000-8000-000000000003'
VOLUME_ID = '3c5d8a70-0000-4000-8000-000000000005'
STACK_ID = '3c5d8a70-0000-4000-8000-000000000006'
RESERVATION_ID = '7110bc37-0000-4000-8000-000000000004'


def reservation(**changes: Any) -> dict[str, Any]:
    return {
        'id': RESERVATION_ID,
        'lease_id': LEASE_ID,
        'resource_type': 'virtual:instance',
        'resource_id': SERVER_ID,
        'status': 'pending',
        'status_reason': None,
        'missing_resources': False,
        'resources_changed': False,
        'created_at': '2082-11-21 02:59:32',
        'updated_at': None,
        'on_end': 'stop',
    } | changes


def event(event_type: str, time: str, **changes: Any) -> dict[str, Any]:
    return {
        'id': f'09ac3819-{event_type}',
        'lease_id': LEASE_ID,
        'event_type': event_type,
        'time': time,
        'status': 'UNDONE',
        'created_at': '2082-11-21 02:59:32',
        'updated_at': None,
    } | changes


def lease(**changes: Any) -> dict[str, Any]:
    return {
        'id': LEASE_ID,
        'name': 'lease1',
        'user_id': 'user1',
        'project_id': 'project1',
        'start_date': '2082-11-21T04:00:00.000000',
        'end_date': '2082-11-21T06:00:00.000000',
        'status': 'PENDING',
        'status_reason': None,
        'degraded': False,
        'generation': 1,
        'created_at': '2082-11-21 02:59:32',
        'updated_at': None,
        'reservations': [reservation()],
        'events': [
            event('end_lease', '2082-11-21T06:00:00.000000'),
            event('before_end_lease', '2082-11-21T05:50:00.000000'),
            event('start_lease', '2082-11-21T04:00:00.000000'),
        ],
    } | changes


def error(status: int, message: str, name: str, **more: Any) -> dict[str, Any]:
    return {'error_code': status, 'error_message': message, 'error_name': name} | more


KEYSTONE = 'http://keystone.example.org/v3'
NOVA = 'http://nova.example.org/v2.1'
CINDER = 'http://cinder.example.org/v3'
HEAT = 'http://heat.example.org/v1/project1'
GLANCE = 'http://glance.example.org'
NEUTRON = 'http://neutron.example.org'
CATALOGUE = {
    'reservation': ENDPOINT,
    'compute': NOVA,
    'block-storage': CINDER,
    'orchestration': HEAT,
    'image': GLANCE,
    'network': NEUTRON,
    'identity': KEYSTONE,
}
ENVIRONMENT = {
    'OS_AUTH_URL': KEYSTONE,
    'OS_USERNAME': 'user1',
    'OS_PASSWORD': 'secret',
    'OS_PROJECT_NAME': 'project1',
    'OS_USER_DOMAIN_ID': 'default',
    'OS_PROJECT_DOMAIN_ID': 'default',
}
NOVA_VERSION = {
    'id': 'v2.1',
    'status': 'CURRENT',
    'version': '2.96',
    'min_version': '2.1',
    'links': [{'rel': 'self', 'href': NOVA}],
}
CINDER_VERSION = {
    'id': 'v3.0',
    'status': 'CURRENT',
    'version': '3.71',
    'min_version': '3.0',
    'links': [{'rel': 'self', 'href': CINDER}],
}
