# SPDX-License-Identifier: Apache-2.0
"""The ports of servers, as nova and neutron have them together."""

import uuid

from tests.functional.heat.clouds import Refusal

#: Statuses of a server in which nova changes its interfaces.
_RUNS = ('ACTIVE', 'PAUSED', 'SHUTOFF')


class Interfaces:
    """A part of :class:`tests.functional.heat.compute.Compute`; its ports are records of neutron.

    A port that nova has made for a server goes with that; one that was given is free again.
    """

    @property
    def ports(self):
        """Id -> record of every port."""
        return self.cloud.neutron.records.setdefault('ports', {})

    def addresses(self, server):
        """Return the addresses of a server."""
        return [each['fixed_ips'][0]['ip_address'] for each in self._plugged(server)]

    def _plug_all(self, server, networks):
        if isinstance(networks, list):
            for each in networks:
                self._plug(server, each)

    def _plug(self, server, wanted):
        key = wanted.get('port')
        if key is None:
            key = str(uuid.uuid4())
            self.ports[key] = {'id': key, 'network_id': wanted.get('uuid'), 'of_nova': True}
        port = self.ports[key]
        if port.get('device_id'):
            raise Refusal(409, f'Port {key} is still in use.')
        number = len(self.ports) + 1
        port.update(device_id=server, mac_address=f'fa:16:3e:00:00:{number:02x}')
        port['fixed_ips'] = [{'ip_address': f'10.0.0.{number}', 'subnet_id': 'subnet'}]
        return key

    def _plugged(self, server):
        return [each for each in self.ports.values() if each.get('device_id') == server]

    def _unplug_all(self, server):
        for port in self._plugged(server):
            self._unplug(port)

    def _unplug(self, port):
        port['device_id'] = ''
        if port.get('of_nova'):
            del self.ports[port['id']]

    def _addresses(self, server):
        found = [
            {
                'version': 4,
                'addr': port['fixed_ips'][0]['ip_address'],
                'OS-EXT-IPS:type': 'fixed',
                'OS-EXT-IPS-MAC:mac_addr': port['mac_address'],
            }
            for port in self._plugged(server)
        ]
        return {'private': found} if found else {}

    def _interfaces(self, request, key):
        self.find(request, key)
        found = [
            {
                'port_id': port['id'],
                'net_id': port.get('network_id'),
                'mac_addr': port['mac_address'],
                'fixed_ips': port['fixed_ips'],
                'port_state': 'ACTIVE',
            }
            for port in self._plugged(key)
        ]
        return {'interfaceAttachments': found}

    def _attach_interface(self, request, key):
        self._check_runs(self.find(request, key))
        wanted = request.json['interfaceAttachment']
        port = self._plug(key, {'port': wanted.get('port_id'), 'uuid': wanted.get('net_id')})
        self.changes.append(('plug', port))
        return {'interfaceAttachment': {'port_id': port}}

    def _detach_interface(self, request, key, port):
        self._check_runs(self.find(request, key))
        if self.ports.get(port, {}).get('device_id') != key:
            raise Refusal(404, 'There is no such interface.')
        self._unplug(self.ports[port])
        self.changes.append(('unplug', port))
        return 202, None

    def _check_runs(self, server):
        if server['status'] not in _RUNS:
            raise Refusal(409, f'Not while it is in vm_state {server["status"]}')
