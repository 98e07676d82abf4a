# SPDX-License-Identifier: Apache-2.0
"""Nova with the extension, as far as heat's client asks it."""

import uuid

from tests.functional.heat.clouds import Refusal, Service
from tests.functional.heat.interfaces import Interfaces

FLAVORS = {'m1': '1', 'm2': '2'}
VERSION = {
    'id': 'v2.1',
    'status': 'CURRENT',
    'version': '2.96',
    'min_version': '2.1',
    'links': [],
}


class Compute(Interfaces, Service):
    """Servers.

    :ivar servers: id -> record: ``status``, ``next``, ``hints``, ``metadata``, ``addresses``,
        ``volumes``, ``flavor``, ``fault``, ``tags``, ``body`` as it was sent, ``failures``, how
        many times it will not start, and ``sleeps_on``, whether it is RESERVED again then
    :ivar full: whether there is no room for another one: what is built ends in ERROR, what is
        reserved too
    :ivar looks: how many looks find a server in BUILD before it is RESERVED or ACTIVE
    :ivar lost_requests: after what the next requests for attachments are lost, in order: to
        ``record`` the volume, to ``reserve`` it in cinder, to ``save`` the
        attachment, to ``undo`` all but the attachment, to ``attach`` it; None: nowhere
    """

    TYPE = 'compute'
    PREFIX = '/v2.1'
    ROUTES = (
        ('GET', '', '_version'),
        ('GET', '/flavors', '_flavors'),
        ('GET', '/flavors/detail', '_flavors'),
        ('GET', '/flavors/([^/]+)', '_flavor'),
        ('GET', '/limits', '_limits'),
        ('POST', '/servers', '_create'),
        ('GET', '/servers/([^/]+)', '_show'),
        ('PUT', '/servers/([^/]+)', '_rename'),
        ('DELETE', '/servers/([^/]+)', '_delete'),
        ('POST', '/servers/([^/]+)/action', '_act'),
        ('POST', '/servers/([^/]+)/metadata', '_metadata'),
        ('DELETE', '/servers/([^/]+)/metadata/([^/]+)', '_forget_metadata'),
        ('PUT', '/servers/([^/]+)/tags', '_tags'),
        ('GET', '/servers/([^/]+)/os-volume_attachments', '_attachments'),
        ('POST', '/servers/([^/]+)/os-volume_attachments', '_attach'),
        ('GET', '/servers/([^/]+)/os-volume_attachments/([^/]+)', '_attachment'),
        ('DELETE', '/servers/([^/]+)/os-volume_attachments/([^/]+)', '_detach'),
        ('GET', '/servers/([^/]+)/os-interface', '_interfaces'),
        ('POST', '/servers/([^/]+)/os-interface', '_attach_interface'),
        ('DELETE', '/servers/([^/]+)/os-interface/([^/]+)', '_detach_interface'),
    )

    def _setUp(self):
        super()._setUp()
        self.servers, self.full, self.looks = {}, False, 3
        self.lost_requests = []

    def error(self, refusal):
        return {'badRequest': {'code': refusal.status, 'message': refusal.message}}

    def named(self, name):
        """Return the server whose name has this in it."""
        (found,) = [each for each in self.servers.values() if name in each['name']]
        return found

    def statuses(self):
        """Statuses of all servers, in order of their creation."""
        return [each['status'] for each in self.servers.values()]

    def _version(self, request):
        return {'version': VERSION}

    def _flavors(self, request):
        return {'flavors': [_shown_flavor(name) for name in FLAVORS]}

    def _flavor(self, request, key):
        for name, number in FLAVORS.items():
            if key in (name, number):
                return {'flavor': _shown_flavor(name)}
        raise Refusal(404, f'Flavor {key} could not be found.')

    def _limits(self, request):
        absolute = dict.fromkeys(('maxServerMeta', 'maxPersonality', 'maxPersonalitySize'), 128)
        return {'limits': {'absolute': absolute, 'rate': []}}

    def _create(self, request):
        wanted = request.json['server']
        hints = request.json.get('os:scheduler_hints') or {}
        volumes = [
            each['uuid']
            for each in wanted.get('block_device_mapping_v2', ())
            if each.get('source_type') == 'volume'
        ]
        for volume in volumes:
            if any(volume in each['volumes'] for each in self.servers.values()):
                raise Refusal(400, f'Volume {volume} already belongs to a server')
        key = str(uuid.uuid4())
        self._plug_all(key, wanted.get('networks'))
        reserved = self.cloud.leases.reserve(request.caller, 'virtual:instance', key, hints)
        status = 'RESERVED' if reserved else 'ACTIVE'
        self.servers[key] = {
            'id': key,
            'name': wanted['name'],
            'tenant_id': request.caller.project_id,
            'status': 'BUILD',
            'next': ['BUILD'] * self.looks + ['ERROR' if self.full else status],
            'flavor': {'id': wanted['flavorRef']},
            'image': {'id': wanted.get('imageRef')},
            'addresses': {},
            'metadata': wanted.get('metadata', {}),
            'fault': {'code': 500, 'message': 'No valid host was found.'},
            'hints': hints,
            'volumes': volumes,
            'unsaved': [],
            'tags': [],
            'sleeps_on': False,
            'body': request.json,
            'failures': 0,
            'lost': 0,
        }
        self.changes.append(('create', key))
        return 202, {'server': {'id': key, 'links': []}}

    def find(self, request, key):
        server = self.servers.get(key)
        if server is None or server['tenant_id'] != request.caller.project_id:
            raise Refusal(404, f'Instance {key} could not be found.')
        return server

    def _show(self, request, key):
        server = self.find(request, key)
        if server['next']:
            server['status'] = server['next'].pop(0)
        if server['status'] == 'GONE':
            self._gone(server)
            raise Refusal(404, f'Instance {key} could not be found.')
        if server['status'] != 'BUILD':
            # It gets them when it is reserved.
            server['addresses'] = self._addresses(key)
        hidden = {'next', 'hints', 'body', 'failures', 'volumes', 'unsaved', 'sleeps_on', 'lost'}
        if server['status'] not in ('ERROR', 'RESERVED'):
            hidden.add('fault')
        return {'server': {k: v for k, v in server.items() if k not in hidden}}

    def forget(self, key):
        """Take a server away, as others than heat do."""
        self._gone(self.servers[key])

    def _gone(self, server):
        del self.servers[server['id']]
        self._unplug_all(server['id'])
        self.cloud.leases.freed(server['id'])
        for volume in server['volumes']:
            self.cloud.cinder.leave(volume)

    def _rename(self, request, key):
        server = self.find(request, key)
        server.update(request.json['server'])
        return {'server': {'id': key}}

    def _delete(self, request, key):
        server = self.find(request, key)
        server['next'] = ['GONE']
        self.changes.append(('delete', key))
        return 204, None

    def _act(self, request, key):
        server = self.find(request, key)
        ((name, argument),) = request.json.items()
        steps = {
            'wake_up': ('RESERVED', ['BUILD'] * self.looks + ['ACTIVE']),
            'suspend': ('ACTIVE', ['SUSPENDED']),
            'resume': ('SUSPENDED', ['ACTIVE']),
            'os-stop': ('ACTIVE', ['SHUTOFF']),
            'os-start': ('SHUTOFF', ['ACTIVE']),
            'resize': ('ACTIVE', ['RESIZE', 'VERIFY_RESIZE']),
            'confirmResize': ('VERIFY_RESIZE', ['ACTIVE']),
            'rebuild': ('ACTIVE', ['REBUILD', 'ACTIVE']),
        }
        if name not in steps:
            raise Refusal(400, f'There is no such action: {name}')
        if name == 'wake_up' and not request.caller.service:
            raise Refusal(403, "Policy doesn't allow wake_up to be performed.")
        status, after = steps[name]
        if server['status'] != status or server['next']:
            raise Refusal(409, f"Cannot '{name}' while it is in vm_state {server['status']}")
        if name == 'wake_up':
            self._check_volumes(server)
        if name == 'wake_up' and server['failures']:
            server['failures'] -= 1
            after = ['BUILD', 'RESERVED' if server['sleeps_on'] else 'ERROR']
        if name == 'wake_up':
            server['OS-EXT-STS:task_state'] = 'scheduling' if server['lost'] else None
        if name == 'wake_up' and server['lost']:
            server['lost'] -= 1
            after = []
        if name == 'resize':
            server['flavor'] = {'id': argument['flavorRef']}
        if name == 'rebuild':
            server['image'] = {'id': argument['imageRef']}
        server['next'] = list(after)
        self.changes.append((name, key))
        return 202, {'server': {'id': key}} if name == 'rebuild' else None

    def _check_volumes(self, server):
        for each in server['volumes']:
            status = self.cloud.cinder.volumes[each]['status']
            if status != 'available':
                raise Refusal(409, f'volume {each} of this server has the status {status}')

    def _metadata(self, request, key):
        self._find_started(request, key)['metadata'].update(request.json['metadata'])
        return request.json

    def _forget_metadata(self, request, key, name):
        del self._find_started(request, key)['metadata'][name]
        return 204, None

    def _tags(self, request, key):
        self._find_started(request, key)['tags'] = request.json['tags']
        return request.json

    def _find_started(self, request, key):
        server = self.find(request, key)
        if server['status'] == 'RESERVED':
            raise Refusal(409, 'Not while it is in vm_state reserved')
        return server

    # Volumes in servers.

    def _attachments(self, request, key):
        server = self.find(request, key)
        hidden = server['unsaved'] if _hides_unsaved(request) else ()
        found = [each for each in server['volumes'] if each not in hidden]
        return {'volumeAttachments': [_shown(server, each) for each in found]}

    def _attach(self, request, key):
        server = self.find(request, key)
        volume = request.json['volumeAttachment']['volumeId']
        if server['status'] != 'ACTIVE':
            raise Refusal(409, f'Cannot attach while it is in vm_state {server["status"]}')
        if any(volume in each['volumes'] for each in self.servers.values()):
            raise Refusal(400, f'Invalid volume: volume {volume} is already attached')
        lost_after = self.lost_requests.pop(0) if self.lost_requests else None
        server['volumes'].append(volume)
        server['unsaved'].append(volume)
        self._lose(lost_after == 'record')
        self.cloud.cinder.reserve_for(volume, key)
        self._lose(lost_after == 'reserve')
        server['unsaved'].remove(volume)
        if lost_after == 'undo':
            server['volumes'].remove(volume)
            self._lose(True)
        self._lose(lost_after == 'save')
        self.cloud.cinder.attach(volume)
        self.changes.append(('attach', volume))
        self._lose(lost_after == 'attach')
        return {'volumeAttachment': _shown(server, volume)}

    def _lose(self, is_lost):
        if is_lost:
            raise Refusal(500, 'Unexpected API Error. MessagingTimeout')

    def _attachment(self, request, key, volume):
        server = self.find(request, key)
        hidden = server['unsaved'] if _hides_unsaved(request) else ()
        if volume not in server['volumes'] or volume in hidden:
            raise Refusal(404, 'Not attached')
        return {'volumeAttachment': _shown(server, volume)}

    def _detach(self, request, key, volume):
        server = self.find(request, key)
        if volume not in server['volumes']:
            raise Refusal(404, 'Not attached')
        self.cloud.cinder.begin_detaching(volume)
        server['volumes'].remove(volume)
        server['unsaved'] = [each for each in server['unsaved'] if each != volume]
        self.cloud.cinder.leave(volume)
        self.changes.append(('detach', volume))
        return 202, None


def _hides_unsaved(request):
    """Tell whether nova lists no volume for which it has saved no attachment of cinder."""
    named = request.headers.get('OpenStack-API-Version') or 'compute 2.1'
    return int(named.rpartition('.')[2]) >= 89


def _shown(server, volume):
    return {'id': volume, 'volumeId': volume, 'serverId': server['id'], 'device': '/dev/vdb'}


def _shown_flavor(name):
    return {'id': FLAVORS[name], 'name': name, 'ram': 512, 'vcpus': 1, 'disk': 1, 'links': []}
