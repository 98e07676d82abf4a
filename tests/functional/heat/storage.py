# SPDX-License-Identifier: Apache-2.0
"""Cinder with the extension, as far as heat's client asks it."""

import uuid

from tests.functional.heat.clouds import Refusal, Service

RESERVED = 'lease-reserved'
VERSION = {
    'id': 'v3.0',
    'status': 'CURRENT',
    'version': '3.71',
    'min_version': '3.0',
    'links': [],
}
_DELETABLE = ('available', 'error', RESERVED)


class Storage(Service):
    """Volumes.

    :ivar volumes: id -> record: ``status``, ``next``, ``hints``, ``size``, ``attachments``,
        ``body`` as it was sent, ``failures``, how many times it will not be created, and
        ``broken``, whether that was so the last time
    :ivar backups: id -> record
    :ivar full: whether there is no room for another one
    :ivar looks: how many looks find a volume ``creating`` before it is there
    :ivar lost_attachments: how many attachments nova will not complete
    """

    TYPE = 'volumev3'
    PREFIX = '/v3/project'
    ROUTES = (
        ('GET', '/v3', '_versions'),
        ('GET', '', '_versions'),
        ('GET', '/extensions', '_extensions'),
        ('GET', '/types', '_types'),
        ('POST', '/volumes', '_create'),
        ('GET', '/volumes/([^/]+)', '_show'),
        ('PUT', '/volumes/([^/]+)', '_update'),
        ('DELETE', '/volumes/([^/]+)', '_delete'),
        ('POST', '/volumes/([^/]+)/action', '_act'),
        ('PUT', '/volumes/([^/]+)/metadata', '_metadata'),
        ('GET', '/attachments', '_attachments'),
        ('POST', '/attachments', '_reserve_attachment'),
        ('DELETE', '/attachments/([^/]+)', '_delete_attachment'),
        ('POST', '/attachments/([^/]+)/action', '_act_on_attachment'),
        ('GET', '/backups/([^/]+)', '_backup'),
        ('GET', '/snapshots', '_snapshots'),
        ('GET', '/snapshots/detail', '_snapshots'),
    )

    def _setUp(self):
        super()._setUp()
        self.volumes, self.backups, self.full, self.looks = {}, {}, False, 3
        self.lost_attachments = 0

    def statuses(self):
        """Statuses of all volumes, in order of their creation."""
        return [each['status'] for each in self.volumes.values()]

    def _versions(self, request):
        return {'versions': [VERSION], 'version': VERSION}

    def _extensions(self, request):
        return {'extensions': []}

    def _types(self, request):
        return {'volume_types': []}

    def _backup(self, request, key):
        if key not in self.backups:
            raise Refusal(404, f'Backup {key} could not be found.')
        return {'backup': self.backups[key]}

    def _snapshots(self, request):
        return {'snapshots': []}

    def _create(self, request):
        wanted = request.json['volume']
        hints = request.json.get('OS-SCH-HNT:scheduler_hints') or {}
        key = str(uuid.uuid4())
        reserved = self.cloud.leases.reserve(request.caller, 'virtual:volume', key, hints)
        status = RESERVED if reserved else 'available'
        self.volumes[key] = {
            'id': key,
            'name': wanted.get('name'),
            'description': wanted.get('description'),
            'os-vol-tenant-attr:tenant_id': request.caller.project_id,
            'status': 'creating',
            'next': ['creating'] * self.looks + ['error' if self.full else status],
            'size': wanted.get('size') or 1,
            'volume_type': None,
            'bootable': 'false',
            'encrypted': False,
            'multiattach': False,
            'metadata': wanted.get('metadata') or {},
            'attachments': [],
            'created_at': '2026-01-01T12:00:00.000000',
            'snapshot_id': None,
            'source_volid': None,
            'availability_zone': 'nova',
            'hints': hints,
            'body': request.json,
            'failures': 0,
            'broken': False,
            'lost': 0,
        }
        self.changes.append(('create', key))
        return 202, {'volume': self._shown(self.volumes[key])}

    def _shown(self, volume):
        hidden = {'next', 'hints', 'body', 'failures', 'broken', 'lost'}
        return {k: v for k, v in volume.items() if k not in hidden}

    def find(self, request, key):
        volume = self.volumes.get(key)
        mine = request.caller.project_id
        if volume is None or volume['os-vol-tenant-attr:tenant_id'] != mine:
            raise Refusal(404, f'Volume {key} could not be found.')
        return volume

    def _show(self, request, key):
        volume = self.find(request, key)
        if volume['next']:
            volume['status'] = volume['next'].pop(0)
        if volume['status'] == 'GONE':
            del self.volumes[key]
            self.cloud.leases.freed(key)
            raise Refusal(404, f'Volume {key} could not be found.')
        return {'volume': self._shown(volume)}

    def _update(self, request, key):
        volume = self.find(request, key)
        volume.update(request.json['volume'])
        return {'volume': self._shown(volume)}

    def _metadata(self, request, key):
        self.find(request, key)['metadata'] = request.json['metadata']
        return request.json

    def _delete(self, request, key):
        volume = self.find(request, key)
        if volume['status'] not in _DELETABLE or volume['attachments']:
            raise Refusal(400, f'Volume status must be available, is {volume["status"]}')
        volume.update(status='deleting', next=['deleting', 'GONE'])
        self.changes.append(('delete', key))
        return 202, None

    def _act(self, request, key):
        volume = self.find(request, key)
        ((name, argument),) = request.json.items()
        if name == 'os-wake_up':
            self._wake_up(request.caller, volume)
        elif name == 'os-extend':
            self._check(volume, 'available')
            volume.update(status='extending', size=argument['new_size'], next=['available'])
        elif name == 'os-update_readonly_flag':
            self._check(volume, 'available')
        elif name == 'os-unreserve':
            if volume['status'] == 'reserved' and not volume['attachments']:
                volume['status'] = 'available'
        else:
            raise Refusal(400, f'There is no such action: {name}')
        self.changes.append((name, key))
        return 202, None

    def _wake_up(self, caller, volume):
        if not caller.service:
            raise Refusal(403, "Policy doesn't allow os-wake_up to be performed.")
        is_lost = volume['status'] == 'creating' and not volume['next']
        if not volume['broken'] and not is_lost:
            self._check(volume, RESERVED)
        steps = ['downloading', 'available']
        if volume['lost']:
            volume['lost'] -= 1
            steps = []
        volume['broken'] = bool(volume['failures'])
        if volume['failures']:
            volume['failures'] -= 1
            steps = ['error']
        volume.update(status='creating', next=steps)

    def _check(self, volume, status):
        if volume['status'] != status:
            raise Refusal(409, f'The volume is {volume["status"]}, not {status}')

    def _attachments(self, request):
        volume = self.find(request, request.params['volume_id'])
        server = request.params['instance_id']
        return {'attachments': [a for a in volume['attachments'] if a['server_id'] == server]}

    def _reserve_attachment(self, request):
        wanted = request.json['attachment']
        volume = self.find(request, wanted['volume_uuid'])
        attachment = self.reserve_for(volume['id'], wanted['instance_uuid'])
        return {'attachment': attachment}

    def _delete_attachment(self, request, key):
        (volume,) = [v for v in self.volumes.values() if key in _ids(v['attachments'])]
        kept = [a for a in volume['attachments'] if a['id'] != key]
        volume.update(attachments=kept, status='reserved' if kept else 'available', next=[])
        return {'attachments': kept}

    def _act_on_attachment(self, request, key):
        assert request.json == {'os-complete': {}}
        self.find(request, key).update(status='in-use', next=[])
        self.changes.append(('complete', key))
        return 204, None

    # For nova.

    def reserve_for(self, key, server):
        """Make an attachment that no nova-compute has completed; one of each server may be there.

        See cinder/volume/api.py ``_attachment_reserve``.
        """
        volume = self.volumes[key]
        servers = {each['server_id'] for each in volume['attachments']}
        if volume['status'] != 'available' and server not in servers:
            raise Refusal(400, f'Volume {key} is {volume["status"]} and cannot be attached.')
        # The first has the id of its volume, for what the tests note.
        made = f'{key}-{len(servers)}' if servers else key
        attachment = {'server_id': server, 'attachment_id': made, 'id': made}
        volume['attachments'].append(attachment)
        volume.update(status='reserved', next=[])
        return attachment

    def attach(self, key):
        """Put a volume that is reserved for a server into it."""
        self.volumes[key].update(status='attaching', next=['attaching'] * self.looks + ['in-use'])
        if self.lost_attachments:
            self.lost_attachments -= 1
            self.volumes[key]['next'] = []

    def begin_detaching(self, key):
        """Refuse what is not in use, as nova asks cinder before it detaches a volume."""
        status = self.volumes[key]['status']
        if status != 'in-use':
            raise Refusal(400, f'Volume {key} is {status} and cannot be detached.')

    def leave(self, key):
        """Take a volume out of its server."""
        volume = self.volumes.get(key)
        if volume:
            volume['attachments'] = []
            volume.update(status='detaching', next=['available'])


def _ids(attachments):
    return [each['id'] for each in attachments]
